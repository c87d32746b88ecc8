//! What is looked for in Sets, Maps and lists in another form than it has there, or by what it is, not by what it holds.
//!
//! The number 501 is in no Set of texts, `in` asks an array for its indexes, and an object is only equal to itself. A place is
//! told when the run is over, if nothing was ever found there.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use rquickjs::{Array, Ctx, Function, Object, Result, Value, function::This};

use super::{
    super::{State, raw, results, slips::in_quotes},
    Watches,
    digest::digest,
    looks::holder_of,
    plain::{Plain, plain},
    sentences::NAMES,
};
use crate::transpile::{Branch, Literal, Shape, Source, Usage, Watched, Way};

/// Looks at a place that shows nothing of interest.
const MAX_LOOKS: u32 = 500;
/// Looks at a place that seems to be wrong, and may turn out to be right.
const MAX_DOUBTS: u32 = 20_000;
/// Looks into lists of one place, and at most so many members of one.
const MAX_LISTS: u32 = 100;
const MAX_MEMBERS: usize = 1_000;
/// Longest text that may be a number, or is looked for with `in`.
const MAX_BYTES: usize = 100;
/// Warnings of one run.
const MAX_WARNINGS: usize = 10;

/// What was seen at the places of a program, by branch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Members<'js> {
    seen: RefCell<BTreeMap<usize, Seen<'js>>>,
    classes: RefCell<Vec<Class<'js>>>,
}

/// Set or Map as the engine has it.
#[derive(Debug)]
struct Class<'js> {
    prototype: Object<'js>,
    has: Function<'js>,
    size: Function<'js>,
}

/// What was seen at one place.
#[derive(Debug, Default)]
struct Seen<'js> {
    looks: u32,
    /// Was something found, or is it another kind of collection?
    is_right: bool,
    /// Was an object itself in the list, behind one of the same content?
    has_itself: bool,
    finding: Option<Finding>,
    /// What objects hold, by their address.
    digests: HashMap<usize, u64>,
    /// Objects that were added, by what they hold.
    added: HashMap<u64, Vec<Value<'js>>>,
}

/// What is wrong at a place.
#[derive(Debug)]
enum Finding {
    /// A number that is there as a text, or the other way round.
    Form { is_text: bool, value: String, member: String },
    /// A member of a list that is taken for the name of a property, or what the property of a member is.
    Member { shown: String, property: Option<String> },
    /// An object of a result that has an equal one there, which is another one.
    Twin { tool: String, shape: Shape },
}

impl<'js> Members<'js> {
    /// Looks at a value beside another one, as [`both_of`] takes them apart. Is there more to see at this place?
    pub(in crate::engine) fn look(
        &self,
        watches: &Watches<'js>,
        branch: usize,
        watched: &Watched,
        both: &Value<'js>,
    ) -> bool {
        let Usage::Among { way, other } = &watched.usage else { return false };
        let Some((Some(first), second)) = both_of(both) else { return false };
        // A proxy would hear of the look.
        if [&first, &second].iter().any(|it| it.as_object().is_some_and(|it| it.is_proxy())) {
            return false;
        }
        let mut all = self.seen.borrow_mut();
        let seen = all.entry(branch).or_default();
        seen.looks += 1;
        match way {
            Way::Has | Way::Get => self.look_in_keys(seen, &first, &second),
            Way::Includes | Way::IndexOf => seen.look_in_list(watches, *way, &first, &second),
            Way::Add => self.look_at_added(watches, seen, &first, &second),
            Way::In => seen.look_at_index(watches, other, &first, &second),
        }
        let limit = match (way, &seen.finding) {
            (Way::Includes | Way::IndexOf | Way::In, _) => MAX_LISTS,
            (Way::Has | Way::Get, Some(_)) => MAX_DOUBTS,
            _ => MAX_LOOKS,
        };
        !seen.is_right && seen.looks < limit && !(*way == Way::Add && seen.finding.is_some())
    }

    /// Asks a Set or Map of the engine's own class for a key. Nothing of the program runs for it.
    fn has(&self, collection: &Value<'js>, key: &Value<'js>) -> Option<bool> {
        self.ask(collection, |class, collection| class.has.call((This(collection), key.clone())))
    }

    /// Is there anything in a Set or Map of the engine's own class?
    pub(in crate::engine) fn is_filled(&self, collection: &Value<'js>) -> bool {
        self.ask(collection, |class, collection| class.size.call((This(collection),)))
            .is_some_and(|size: usize| size > 0)
    }

    fn ask<T>(&self, collection: &Value<'js>, ask: impl FnOnce(&Class<'js>, Object<'js>) -> Result<T>) -> Option<T> {
        let object = collection.as_object().filter(|_| raw::is_set(collection) || raw::is_map(collection))?;
        let classes = self.classes.borrow();
        let class = classes.iter().find(|it| raw::has_prototype(object, std::slice::from_ref(&it.prototype)))?;
        ask(class, object.clone()).inspect_err(|_| drop(object.ctx().catch())).ok()
    }

    fn look_in_keys(&self, seen: &mut Seen<'js>, collection: &Value<'js>, key: &Value<'js>) {
        match self.has(collection, key) {
            None | Some(true) => seen.is_right = true,
            Some(false) if seen.finding.is_none() => {
                if let Some(other) = other_form(key).filter(|other| self.has(collection, other) == Some(true)) {
                    seen.finding = form(key, &other);
                }
            }
            Some(false) => {}
        }
    }

    /// Looks at an object that is added to a Set.
    fn look_at_added(&self, watches: &Watches<'js>, seen: &mut Seen<'js>, set: &Value<'js>, value: &Value<'js>) {
        let Some(object) = value.as_object() else { return };
        let Some(tool) = watches.tool_of(object).filter(|_| raw::is_set(set)) else { return };
        let Some(digest) = digest(object) else { return };
        let alike = seen.added.entry(digest).or_default();
        let is_there = |it: &Value<'js>| !raw::is_same(it, value) && self.has(set, it) == Some(true);
        if alike.iter().any(is_there) {
            seen.finding = Some(Finding::Twin { tool, shape: results::shape(value, 0) });
            seen.added.clear();
        } else if alike.len() < 3 {
            alike.push(value.clone());
        }
    }

    /// The warnings of a run that is over. `known` are those that are there already.
    pub(in crate::engine) fn told(&self, source: &Source, branches: &[Branch], known: &[String]) -> Vec<String> {
        let seen = self.seen.take();
        let sentences = seen.iter().filter_map(|(branch, seen)| {
            let Branch::Watch(watched) = branches.get(*branch)? else { return None };
            let line = format!("line {}: ", source.position(watched.offset).line);
            let sentence = line + &seen.sentence(watched, source)?;
            // What is compared with a list that is written out is told already.
            let subject = sentence.split(" and ").next().unwrap_or(&sentence);
            (!known.iter().any(|it| it.starts_with(subject))).then_some(sentence)
        });
        sentences.take(MAX_WARNINGS).collect()
    }
}

impl<'js> Seen<'js> {
    /// Looks for a text or number in a list, or for an object.
    fn look_in_list(&mut self, watches: &Watches<'js>, way: Way, list: &Value<'js>, value: &Value<'js>) {
        let Some(list) = list.as_array() else {
            self.is_right = true;
            return;
        };
        if let Some(object) = value.as_object() {
            if let Some(tool) = watches.tool_of(object) {
                self.look_for_object(list, way, object, tool);
            }
            return;
        }
        let other = other_form(value).filter(|_| self.finding.is_none());
        for element in raw::own_elements(list, MAX_MEMBERS) {
            if raw::is_same(&element, value) {
                self.is_right = true;
                return;
            }
            if let Some(other) = other.as_ref().filter(|other| raw::is_same(&element, other)) {
                self.finding = form(value, other);
            }
        }
    }

    /// Looks for an object that holds the same as another one in the list, in front of it.
    fn look_for_object(&mut self, list: &Array<'js>, way: Way, object: &Object<'js>, tool: String) {
        let Some(wanted) = digest(object) else { return };
        for element in raw::own_elements(list, MAX_MEMBERS).filter_map(Value::into_object) {
            if raw::is_same_object(&element, object) {
                // `list.indexOf(x) === i` finds each object.
                self.is_right |= way == Way::Includes;
                self.has_itself = true;
                return;
            }
            let address = raw::address(&element);
            let known = self.digests.get(&address).copied().or_else(|| digest(&element));
            let Some(known) = known.filter(|_| self.finding.is_none()) else { continue };
            if self.digests.len() < MAX_MEMBERS {
                self.digests.insert(address, known);
            }
            // An address may have been that of another object.
            if known == wanted && digest(&element) == Some(wanted) {
                self.finding = Some(Finding::Twin { tool: tool.clone(), shape: results::shape(object.as_value(), 0) });
            }
        }
    }

    /// Looks at `name in list`.
    fn look_at_index(&mut self, watches: &Watches<'js>, written: &str, name: &Value<'js>, list: &Value<'js>) {
        let (Some(list), Some(Plain::Text(_) | Plain::Number(_))) = (list.as_array(), plain(name, &[])) else {
            self.is_right = true;
            return;
        };
        let Some(text) = raw::with_text(name, |text, _| text.to_owned()).filter(|it| it.len() <= MAX_BYTES) else {
            return;
        };
        // An index that is not written out is one.
        let is_index = text.parse::<u32>().is_ok_and(|index| {
            name.is_number() && (written.parse::<f64>().is_err() || (index as usize) < list.len()) || name.is_string()
        });
        if is_index || text == "length" {
            self.is_right |= is_index;
            return;
        }
        if self.finding.is_some() {
            return;
        }
        let is_of_result = watches.tool_of(list.as_object()).is_some();
        let literal = [Literal::Text(text.clone())];
        let shown = if name.is_string() { in_quotes(&text) } else { text };
        for element in raw::own_elements(list, MAX_MEMBERS) {
            let property = match element.as_object().filter(|_| is_of_result && name.is_string()) {
                Some(object) => holder_of(object, &literal),
                None => None,
            };
            if property.is_some() || raw::is_same(&element, name) {
                self.finding = Some(Finding::Member { shown, property });
                return;
            }
        }
    }

    fn sentence(&self, watched: &Watched, source: &Source) -> Option<String> {
        let finding = self.finding.as_ref().filter(|_| !self.is_right)?;
        let (Usage::Among { way, other }, value) = (&watched.usage, &watched.value) else { return None };
        if source.treatment(value).is_tested {
            return None;
        }
        let method = way.name();
        match finding {
            Finding::Form { is_text, value: shown, member } => {
                let call = |value: &str| format!("{other}.{method}({value})");
                let forms = [
                    format!("String({value})"),
                    format!("Number({value})"),
                    format!("+{value}"),
                    format!("`${{{value}}}`"),
                ];
                // The program looks for both.
                if forms.iter().any(|form| source.has_text(&call(form))) {
                    return None;
                }
                let function = if *is_text { "Number" } else { "String" };
                let plain = ["String(", "Number("].iter().find_map(|it| value.strip_prefix(it)?.strip_suffix(')'));
                let advice = plain.map_or_else(|| call(&format!("{function}({value})")), call);
                Some(format!("`{value}` is {shown} and never in `{other}`, which has {member}: write `{advice}`"))
            }
            Finding::Member { shown, property } => {
                let advice = match property {
                    Some(property) => format!("{value}.some((it) => it.{property} === {other})"),
                    None => format!("{value}.includes({other})"),
                };
                Some(format!(
                    "`{value}` is an array, in which `in` looks for an index, and never for {shown}, which is in it: write `{advice}`"
                ))
            }
            Finding::Twin { tool, shape } => {
                let rest = source.text_behind(watched).trim_start().strip_prefix(')').map(str::trim_start);
                let index = rest.map(|it| it.trim_start_matches(['=', '!']).trim_start());
                let is_first = index.is_some_and(|it| it.starts_with(char::is_alphabetic));
                let is_found = *way == Way::IndexOf && self.has_itself && !is_first;
                if is_found {
                    return None;
                }
                let name = NAMES.iter().find(|name| shape.keys().any(|key| key == **name));
                let advice = match (name, way) {
                    (None, _) => String::new(),
                    (Some(name), Way::Add) => format!(": did you mean `{value}.{name}`?"),
                    (Some(name), Way::IndexOf) => {
                        format!(": compare a property, as in `findIndex((it) => it.{name} === {value}.{name})`")
                    }
                    (Some(name), _) => {
                        format!(": compare a property, as in `{other}.some((it) => it.{name} === {value}.{name})`")
                    }
                };
                Some(format!(
                    "`{value}` is an object of the result of {tool}, and `{other}` has another one with the same content, which is not \
                     equal to it{advice}"
                ))
            }
        }
    }
}

/// A value, and in front of it another one: `[other, value]`, or `[root, …names, value]` if the other one is a chain of names. The other
/// one is none if a getter of the program is on the way.
pub(in crate::engine) fn both_of<'js>(both: &Value<'js>) -> Option<(Option<Value<'js>>, Value<'js>)> {
    let list = both.as_array()?;
    let mut path: Vec<Value<'js>> = raw::own_elements(list, list.len()).collect();
    let value = path.pop()?;
    Some((at_end(&path), value))
}

/// What stands at the end of a chain: a value, and the names that lead on from it. None if a getter of the program is on the way.
fn at_end<'js>(path: &[Value<'js>]) -> Option<Value<'js>> {
    let (root, names) = path.split_first()?;
    names.iter().try_fold(root.clone(), |value, name| {
        let object = value.as_object().filter(|it| !it.is_proxy() && (name.is_string() || name.is_number()))?;
        raw::own_data(object, name)
    })
}

fn form(value: &Value<'_>, member: &Value<'_>) -> Option<Finding> {
    let shown = |value: &Value<'_>| {
        let (text, _) = raw::text(value)?;
        Some(if value.is_string() { format!("the text {}", in_quotes(&text)) } else { format!("the number {text}") })
    };
    Some(Finding::Form { is_text: value.is_string(), value: shown(value)?, member: shown(member)? })
}

/// The text of a number, or the number that a text is.
fn other_form<'js>(value: &Value<'js>) -> Option<Value<'js>> {
    let ctx = value.ctx();
    let is_number = value.as_number().is_some_and(f64::is_finite) || value.is_big_int();
    let (text, _) = raw::text(value).filter(|(text, _)| (is_number || value.is_string()) && text.len() <= MAX_BYTES)?;
    if is_number {
        return rquickjs::String::from_str(ctx.clone(), &text).ok().map(rquickjs::String::into_value);
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    let number = match number {
        whole if whole.fract() == 0.0 && whole.abs() < 1e9 => Value::new_int(ctx.clone(), whole as i32),
        number => Value::new_float(ctx.clone(), number),
    };
    // `"007"` is another id than 7.
    raw::with_text(&number, |written, _| written == text)?.then_some(number)
}

/// Keeps the engine's classes, before the program can change them.
pub(in crate::engine) fn install<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>) -> Result<()> {
    for name in ["Set", "Map"] {
        let prototype: Object<'js> = ctx.globals().get::<_, Object<'js>>(name)?.get("prototype")?;
        let describe: Function<'js> = ctx.globals().get::<_, Object<'js>>("Object")?.get("getOwnPropertyDescriptor")?;
        let size = describe.call::<_, Object<'js>>((prototype.clone(), "size"))?.get("get")?;
        let has = prototype.get("has")?;
        state.members.classes.borrow_mut().push(Class { prototype, has, size });
    }
    Ok(())
}
