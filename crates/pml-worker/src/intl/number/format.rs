//! Formats numbers as `Intl.NumberFormat` does.

use std::{borrow::Cow, ops::Range};

use fixed_decimal::{Decimal, Sign};
use icu_plurals::{PluralCategory, PluralOperands, PluralRules};
use icu_properties::{CodePointMapData, props::GeneralCategory};

use super::{
    compact::Compact,
    digits::Amount,
    options::{CompactDisplay, CurrencyDisplay, CurrencySign, Grouping, Notation, NumberOptions, SignDisplay, Style},
    pattern::{Affixes, Pattern, Token},
};
use crate::intl::{
    Failure,
    part::{Part, fill, push},
    plural,
    table::{List, Locale},
    width::Width,
};

/// The items of `n.symbols`.
mod symbol {
    pub(super) const DECIMAL: usize = 0;
    pub(super) const GROUP: usize = 1;
    pub(super) const PERCENT: usize = 2;
    pub(super) const PLUS: usize = 3;
    pub(super) const MINUS: usize = 4;
    pub(super) const EXPONENTIAL: usize = 5;
    pub(super) const INFINITY: usize = 7;
    pub(super) const NAN: usize = 8;
    pub(super) const TIME_SEPARATOR: usize = 9;
    pub(super) const APPROXIMATELY: usize = 10;
    pub(super) const CURRENCY_DECIMAL: usize = 11;
    pub(super) const CURRENCY_GROUP: usize = 12;
}

/// Formats numbers for one locale with one set of options.
#[derive(Debug)]
pub(crate) struct NumberFormat {
    pub(super) options: NumberOptions,
    pub(super) locale: Locale,
    symbols: List,
    digits: [char; 10],
    pattern: Pattern,
    /// What stands between the numbers of a range.
    pub(super) range: &'static str,
    compact: Option<Compact>,
    plurals: PluralRules,
    /// How many digits stand before the first group separator at least.
    grouping: i16,
    /// The currency as it is shown beside the number.
    symbol: Cow<'static, str>,
}

/// Is the number meant as it stands?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closeness {
    Exact,
    Approximate,
}

/// The number without what stands around it.
pub(super) struct Body {
    parts: Vec<Part>,
    is_negative: bool,
    is_zero: bool,
    pub(super) category: PluralCategory,
    compact: Option<Pattern>,
}

impl NumberFormat {
    pub(crate) fn new(options: NumberOptions) -> Result<NumberFormat, Failure> {
        let locale = Locale::named(&options.data)?;
        let system = options.numbering_system.as_str();
        let key = |name: &str| {
            let own = format!("n.{name}.{system}");
            if locale.get(&own).is_some() { own } else { format!("n.{name}.latn") }
        };
        let patterns = locale.list(&key("patterns"));
        let is_symbol = options.currency_display != CurrencyDisplay::Name;
        let symbol = currency_symbol(locale, &options);
        let pattern = match options.style {
            Style::Percent => patterns.get(1),
            Style::Unit if options.unit == "percent" && options.unit_display != Width::Long => patterns.get(1),
            Style::Currency if is_symbol => match options.currency_sign {
                CurrencySign::Standard => patterns.get(3),
                // Without signs there is nothing to put into brackets.
                CurrencySign::Accounting if options.sign_display == SignDisplay::Never => patterns.get(3),
                CurrencySign::Accounting => patterns.get(4).or(patterns.get(3)),
            },
            Style::Currency | Style::Decimal | Style::Unit => patterns.get(0),
        };
        let compact = (options.notation == Notation::Compact).then(|| {
            let name = match (options.style, options.compact_display) {
                (Style::Currency, CompactDisplay::Short) if is_symbol => match symbol.ends_with(char::is_alphabetic) {
                    true if locale.get(&key("compact-currency-alpha")).is_some() => "compact-currency-alpha",
                    _ => "compact-currency",
                },
                (_, CompactDisplay::Short) => "compact-short",
                (_, CompactDisplay::Long) => "compact-long",
            };
            Compact(locale.list(&key(name)))
        });
        let own = locale.get("n.grouping").and_then(|digits| digits.parse().ok()).unwrap_or(1);
        let grouping = match options.use_grouping {
            Grouping::Always => 1,
            Grouping::Auto => own,
            Grouping::Min2 => own.max(2),
            Grouping::Never => i16::MAX,
        };
        Ok(NumberFormat {
            symbols: locale.list(&key("symbols")),
            digits: digits_of(system).ok_or_else(|| Failure::range("there is no such numbering system"))?,
            pattern: Pattern::parse(pattern.unwrap_or("#,##0.###")),
            range: patterns.get(7).unwrap_or("{0}–{1}"),
            compact,
            plurals: plural::cardinal(locale)?,
            grouping,
            symbol,
            locale,
            options,
        })
    }

    /// The parts of the formatted number.
    pub(crate) fn format(&self, amount: &Amount) -> Vec<Part> {
        let body = self.body(amount);
        let category = body.category;
        let (parts, _) = self.with_affixes(body, Closeness::Exact);
        self.with_name(without_marks(parts), category)
    }

    /// What stands between hours and minutes.
    pub(crate) fn time_separator(&self) -> &'static str {
        self.symbols.get(symbol::TIME_SEPARATOR).unwrap_or(":")
    }

    /// Puts the name of a unit or currency around a number.
    pub(super) fn with_name(&self, parts: Vec<Part>, category: PluralCategory) -> Vec<Part> {
        match self.options.style {
            Style::Unit if !self.is_percent_unit() => self.with_unit(parts, category),
            Style::Currency if self.options.currency_display == CurrencyDisplay::Name => {
                let pattern = self.locale.list(&format!("n.currency-unit.{}", self.options.numbering_system));
                let pattern = match pattern.is_empty() {
                    true => self.locale.list("n.currency-unit.latn").plural(category),
                    false => pattern.plural(category),
                };
                let name = Part::new("currency", currency_name(self.locale, &self.options.currency, category));
                fill(pattern, vec![parts, vec![name]])
            }
            _ => parts,
        }
    }

    /// The plural category of the number as it is shown.
    pub(crate) fn category(&self, amount: &Amount, rules: &PluralRules) -> PluralCategory {
        match amount {
            Amount::Finite(decimal) => {
                let (rounded, exponent) = self.scaled(decimal.clone());
                rules.category_for(operands(&rounded, exponent))
            }
            Amount::Infinite { .. } | Amount::NotANumber => PluralCategory::Other,
        }
    }

    fn is_percent_unit(&self) -> bool {
        self.options.unit == "percent" && self.options.unit_display != Width::Long
    }

    fn symbol_of(&self, index: usize) -> &'static str {
        self.symbols.get(index).unwrap_or_default()
    }

    pub(super) fn body(&self, amount: &Amount) -> Body {
        let Amount::Finite(decimal) = amount else {
            let (kind, index) = match amount {
                Amount::Infinite { .. } => ("infinity", symbol::INFINITY),
                _ => ("nan", symbol::NAN),
            };
            return Body {
                parts: vec![Part::new(kind, self.symbol_of(index))],
                is_negative: amount.is_negative(),
                is_zero: matches!(amount, Amount::NotANumber),
                category: PluralCategory::Other,
                compact: None,
            };
        };
        let mut decimal = decimal.clone();
        if self.options.style == Style::Percent {
            decimal.absolute.multiply_pow10(2);
        }
        let (rounded, exponent) = self.scaled(decimal);
        let category = self.plurals.category_for(operands(&rounded, exponent));
        let mut parts = self.digit_parts(&rounded);
        let mut compact = None;
        match self.options.notation {
            Notation::Scientific | Notation::Engineering => self.push_exponent(&mut parts, exponent),
            Notation::Compact => {
                let magnitude = magnitude(&rounded) + exponent;
                // The word goes with the number before it: "1 million", though it is a million.
                let category = self.plurals.category_for(&rounded);
                compact = self.compact.and_then(|compact| compact.pattern(magnitude, category));
            }
            Notation::Standard => {}
        }
        Body {
            parts,
            is_negative: rounded.sign() == Sign::Negative,
            is_zero: rounded.absolute.is_zero(),
            category,
            compact,
        }
    }

    /// The number as it is shown, and the power of ten that it was divided by.
    fn scaled(&self, decimal: Decimal) -> (Decimal, i16) {
        let exponent_of = |magnitude: i16| match self.options.notation {
            Notation::Standard => 0,
            Notation::Scientific => magnitude,
            Notation::Engineering => magnitude.div_euclid(3) * 3,
            Notation::Compact => self.compact.map_or(0, |compact| compact.exponent(magnitude)),
        };
        let divided = |exponent: i16| {
            let mut decimal = decimal.clone();
            decimal.absolute.multiply_pow10(-exponent);
            self.options.digits.round(decimal).decimal
        };
        let before = magnitude(&decimal);
        let exponent = exponent_of(before);
        let rounded = divided(exponent);
        if rounded.absolute.is_zero() || magnitude(&rounded) + exponent == before {
            return (rounded, exponent);
        }
        // Rounding has made it longer: 999 999 is a million in short.
        match exponent_of(before + 1) {
            same if same == exponent => (rounded, exponent),
            larger => (divided(larger), larger),
        }
    }

    /// The digits with their separators.
    fn digit_parts(&self, decimal: &Decimal) -> Vec<Part> {
        let is_currency = self.options.style == Style::Currency;
        let separator = |own: usize, plain: usize| {
            let own = is_currency.then(|| self.symbols.get(own)).flatten();
            own.unwrap_or_else(|| self.symbol_of(plain))
        };
        let range = decimal.absolute.magnitude_range();
        let (start, end) = (*range.end(), *range.start());
        let digit = |place: i16| self.digits[usize::from(decimal.absolute.digit_at(place))];
        let mut parts = Vec::new();
        let mut group = String::new();
        let groups =
            self.pattern.groups.filter(|(primary, _)| start >= *primary + self.grouping.min(i16::MAX - 100) - 1);
        for place in (0..=start.max(0)).rev() {
            group.push(digit(place));
            if let Some((primary, secondary)) = groups
                && place >= primary
                && (place - primary) % secondary == 0
            {
                push(&mut parts, Part::new("integer", std::mem::take(&mut group)));
                parts.push(Part::new("group", separator(symbol::CURRENCY_GROUP, symbol::GROUP)));
            }
        }
        push(&mut parts, Part::new("integer", group));
        if end < 0 {
            parts.push(Part::new("decimal", separator(symbol::CURRENCY_DECIMAL, symbol::DECIMAL)));
            parts.push(Part::new("fraction", (end..0).rev().map(digit).collect::<String>()));
        }
        parts
    }

    fn push_exponent(&self, parts: &mut Vec<Part>, exponent: i16) {
        parts.push(Part::new("exponentSeparator", self.symbol_of(symbol::EXPONENTIAL)));
        if exponent < 0 {
            parts.push(Part::new("exponentMinusSign", self.symbol_of(symbol::MINUS)));
        }
        let digits = exponent.unsigned_abs().to_string();
        parts.push(Part::new("exponentInteger", localized(&digits, &self.digits)));
    }

    /// Puts sign, currency, percent sign and compact words around the digits, and says where those are.
    pub(super) fn with_affixes(&self, body: Body, closeness: Closeness) -> (Vec<Part>, Range<usize>) {
        use SignDisplay::{Always, Auto, ExceptZero, Negative, Never};
        let shows_minus = body.is_negative
            && match self.options.sign_display {
                Auto | Always => true,
                Never => false,
                ExceptZero | Negative => !body.is_zero,
            };
        let shows_plus = !body.is_negative
            && match self.options.sign_display {
                Always => true,
                ExceptZero => !body.is_zero,
                Auto | Never | Negative => false,
            };
        // The words of a compact currency stand in for the pattern; those of other numbers go inside it.
        let is_whole = self.options.style != Style::Percent && body.compact.is_some();
        let pattern = body.compact.as_ref().filter(|_| is_whole).unwrap_or(&self.pattern);
        let is_close = closeness == Closeness::Approximate;
        let mut signs = Vec::new();
        signs.extend(is_close.then_some(Token::Approximately));
        signs.extend(shows_minus.then_some(Token::Minus));
        signs.extend(shows_plus.then_some(Token::Plus));
        let has_own = pattern
            .negative
            .as_ref()
            .filter(|negative| shows_minus || (!signs.is_empty() && negative.has(&Token::Minus)));
        let affixes = has_own.unwrap_or(&pattern.positive);
        // The signs stand where the pattern of negative numbers has its own, or in front.
        let signed = |affix: &[Token]| -> Vec<Token> {
            let of = |token: &Token| if *token == Token::Minus { signs.clone() } else { vec![token.clone()] };
            affix.iter().flat_map(of).collect()
        };
        let (mut prefix, suffix) = (signed(&affixes.prefix), signed(&affixes.suffix));
        if has_own.is_none() {
            prefix.splice(0..0, signs.iter().cloned());
        } else if is_close && !affixes.has(&Token::Minus) {
            prefix.insert(0, Token::Approximately);
        }

        let word = if is_whole { "compact" } else { "literal" };
        let mut parts = Vec::new();
        self.push_affix(&mut parts, &prefix, word);
        if prefix.last() == Some(&Token::Currency)
            && self.needs_space(self.symbol.chars().next_back(), body.parts.first(), false)
        {
            push(&mut parts, Part::literal("\u{a0}"));
        }
        let inner = body.compact.as_ref().filter(|_| !is_whole).map(|compact| &compact.positive);
        let empty = Affixes { prefix: Vec::new(), suffix: Vec::new() };
        let inner = inner.unwrap_or(&empty);
        self.push_affix(&mut parts, &inner.prefix, "compact");
        let last = body.parts.last().cloned();
        let start = parts.len();
        body.parts.into_iter().for_each(|part| push(&mut parts, part));
        let digits = start..parts.len();
        self.push_affix(&mut parts, &inner.suffix, "compact");
        if suffix.first() == Some(&Token::Currency) && self.needs_space(self.symbol.chars().next(), last.as_ref(), true)
        {
            push(&mut parts, Part::literal("\u{a0}"));
        }
        self.push_affix(&mut parts, &suffix, word);
        (parts, digits)
    }

    /// Is there a space between a currency and the digits beside it? Between a letter and a digit there is.
    fn needs_space(&self, letter: Option<char>, beside: Option<&Part>, is_behind: bool) -> bool {
        use GeneralCategory as G;
        let Some(letter) = letter else { return false };
        let digit =
            beside.and_then(|part| if is_behind { part.text.chars().next_back() } else { part.text.chars().next() });
        let category = CodePointMapData::<GeneralCategory>::new().get(letter);
        let is_symbol_or_space = matches!(
            category,
            G::MathSymbol
                | G::CurrencySymbol
                | G::ModifierSymbol
                | G::OtherSymbol
                | G::SpaceSeparator
                | G::LineSeparator
                | G::ParagraphSeparator
        );
        !is_symbol_or_space && digit.is_some_and(char::is_numeric)
    }

    fn push_affix(&self, parts: &mut Vec<Part>, affix: &[Token], word: &'static str) {
        let percent = if self.is_percent_unit() && self.options.style == Style::Unit { "unit" } else { "percentSign" };
        for token in affix {
            match token {
                Token::Literal(text) if word == "literal" => push(parts, Part::literal(text.clone())),
                Token::Literal(text) => push_word(parts, text, word),
                Token::Currency => push(parts, Part::new("currency", self.symbol.clone())),
                Token::Percent => push(parts, Part::new(percent, self.symbol_of(symbol::PERCENT))),
                Token::Minus => push(parts, Part::new("minusSign", self.symbol_of(symbol::MINUS))),
                Token::Plus => push(parts, Part::new("plusSign", self.symbol_of(symbol::PLUS))),
                Token::Approximately => {
                    push(parts, Part::new("approximatelySign", self.symbol_of(symbol::APPROXIMATELY)));
                }
            }
        }
    }

    fn with_unit(&self, number: Vec<Part>, category: PluralCategory) -> Vec<Part> {
        let width = self.options.unit_display.as_str();
        let forms = |unit: &str| self.locale.list(&format!("u.{width}.{unit}"));
        let unit = self.options.unit.as_str();
        let pattern: Cow<'static, str> = match (forms(unit).is_empty(), unit.split_once("-per-")) {
            (true, Some((first, second))) => {
                let first = forms(first).record(1).plural(category);
                let second = forms(second);
                match second.record(0).get(0) {
                    // The second unit's own way to say "per".
                    Some(per) => per.replace("{0}", first).into(),
                    None => {
                        let name = second.record(1).plural(PluralCategory::One).replace("{0}", "");
                        let per = self.locale.get(&format!("u.{width}.per")).unwrap_or("{0}/{1}");
                        per.replace("{0}", first).replace("{1}", name.trim()).into()
                    }
                }
            }
            _ => forms(unit).record(1).plural(category).into(),
        };
        // "A liter" says how many without a number.
        let Some((before, behind)) = pattern.split_once("{0}") else {
            return vec![Part::new("unit", pattern)];
        };
        let mut parts = Vec::new();
        push_word(&mut parts, before, "unit");
        number.into_iter().for_each(|part| push(&mut parts, part));
        push_word(&mut parts, behind, "unit");
        parts
    }
}

/// Marks of writing direction beside a sign are no part of it.
pub(super) fn without_marks(parts: Vec<Part>) -> Vec<Part> {
    const MARKS: [char; 3] = ['\u{61c}', '\u{200e}', '\u{200f}'];
    if !parts.iter().any(|part| part.kind != "literal" && part.text.contains(MARKS)) {
        return parts;
    }
    let mut split = Vec::new();
    for part in parts {
        let inner = part.text.trim_matches(MARKS);
        if part.kind == "literal" || inner.is_empty() || inner.len() == part.text.len() {
            push(&mut split, part);
            continue;
        }
        let start = part.text.find(inner).unwrap_or(0);
        let (before, behind) = (part.text[..start].to_owned(), part.text[start + inner.len()..].to_owned());
        let inner = Part { text: inner.to_owned().into(), ..part };
        push(&mut split, Part::literal(before));
        push(&mut split, inner);
        push(&mut split, Part::literal(behind));
    }
    split
}

/// Adds a word, with the spaces around it as literals.
fn push_word(parts: &mut Vec<Part>, text: &str, kind: &'static str) {
    let is_space = |letter: char| letter.is_whitespace() || letter == '\u{200f}' || letter == '\u{200e}';
    let word = text.trim_matches(is_space);
    let start = if word.is_empty() { text.len() } else { text.find(word).unwrap_or(0) };
    push(parts, Part::literal(text[..start].to_owned()));
    push(parts, Part::new(kind, word.to_owned()));
    push(parts, Part::literal(text[start + word.len()..].to_owned()));
}

fn magnitude(decimal: &Decimal) -> i16 {
    if decimal.absolute.is_zero() { 0 } else { decimal.absolute.nonzero_magnitude_start() }
}

fn operands(decimal: &Decimal, exponent: i16) -> PluralOperands {
    match u8::try_from(exponent) {
        Ok(0) | Err(_) => PluralOperands::from(decimal),
        Ok(exponent) => PluralOperands::from_significand_and_exponent(&decimal.absolute, exponent),
    }
}

/// Digits in a numbering system.
fn localized(digits: &str, system: &[char; 10]) -> String {
    digits.chars().map(|digit| digit.to_digit(10).map_or(digit, |value| system[value as usize])).collect()
}

/// The digits of a numbering system.
pub(crate) fn digits_of(system: &str) -> Option<[char; 10]> {
    let digits = Locale::everywhere().get(&format!("system.{system}"))?;
    let digits: Vec<char> = digits.chars().collect();
    digits.try_into().ok()
}

/// The names of all numbering systems that have digits.
pub(crate) fn numbering_systems() -> Vec<&'static str> {
    Locale::everywhere().with_prefix("system.").map(|(name, _)| name).collect()
}

/// How many digits a currency has behind the point.
pub(crate) fn currency_digits(currency: &str) -> u8 {
    let digits = Locale::everywhere().list("digits");
    let of = |code: &str| digits.iter().find_map(|item| item.strip_prefix(code)?.parse().ok());
    of(currency).or_else(|| of("DEFAULT")).unwrap_or(2)
}

fn currency_symbol(locale: Locale, options: &NumberOptions) -> Cow<'static, str> {
    let names = locale.list(&format!("c.{}", options.currency));
    let symbol = match options.currency_display {
        CurrencyDisplay::Symbol => names.get(1),
        CurrencyDisplay::NarrowSymbol => names.get(2).or(names.get(1)),
        CurrencyDisplay::Code | CurrencyDisplay::Name => None,
    };
    symbol.map_or_else(|| options.currency.clone().into(), Cow::Borrowed)
}

/// The name of so much of a currency.
fn currency_name(locale: Locale, currency: &str, category: PluralCategory) -> Cow<'static, str> {
    let names = locale.list(&format!("c.{currency}"));
    // Name, symbol and narrow symbol stand before the plural forms.
    let forms: Vec<&'static str> = names.iter().skip(3).collect();
    let form = match forms.len() {
        0 => None,
        1 => Some(forms[0]),
        _ => forms.get(category as usize).filter(|form| !form.is_empty()).or(forms.get(5)).copied(),
    };
    let form = form.filter(|form| !form.is_empty()).or(names.get(0));
    form.map_or_else(|| currency.to_owned().into(), Cow::Borrowed)
}
