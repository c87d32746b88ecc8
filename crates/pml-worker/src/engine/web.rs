//! What the prelude builds the usual globals on: timers, chance, text, URLs.

use std::rc::Rc;

use rquickjs::{Array, ArrayBuffer, Ctx, Exception, FromJs, Function, Object, Result, Value, function::Opt};
use url::{Url, form_urlencoded, quirks};

use super::{State, raw};
use crate::clock::Moment;

/// A text as URLs and their like take it: without lone surrogates.
struct Text(String);

impl<'js> FromJs<'js> for Text {
    fn from_js(_: &Ctx<'js>, value: Value<'js>) -> Result<Text> {
        raw::text(&value).map(|(text, _)| Text(text)).ok_or(rquickjs::Error::Exception)
    }
}

/// Adds the functions to `native`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    time_and_chance(ctx, native, state)?;
    text(ctx, native)?;
    urls(ctx, native)?;
    kinds(ctx, native)
}

fn time_and_chance<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    let shared = Rc::clone(state);
    let set_timer = move |ctx: Ctx<'js>, callback: Function<'js>, delay_ms: f64, repeats: bool| {
        let id = shared.timers.borrow_mut().add(callback, delay_ms, repeats);
        id.ok_or_else(|| Exception::throw_range(&ctx, "too many timers are waiting"))
    };
    native.set("setTimer", Function::new(ctx.clone(), set_timer)?)?;

    let shared = Rc::clone(state);
    let clear_timer = move |id: f64| shared.timers.borrow_mut().remove(id as u32);
    native.set("clearTimer", Function::new(ctx.clone(), clear_timer)?)?;

    let shared = Rc::clone(state);
    let now = move || Moment::now().since(shared.started.get()).as_secs_f64() * 1000.0;
    native.set("now", Function::new(ctx.clone(), now)?)?;

    // xorshift64*, as the engine itself has it: fast and good enough for dice.
    let shared = Rc::clone(state);
    let random = move || {
        let mut bits = shared.random.get();
        bits ^= bits >> 12;
        bits ^= bits << 25;
        bits ^= bits >> 27;
        shared.random.set(bits);
        (bits.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    };
    native.set("random", Function::new(ctx.clone(), random)?)?;

    let fill = |ctx: Ctx<'js>, length: usize| {
        let mut bytes = vec![0_u8; length.min(65_536)];
        fill_random(&mut bytes);
        ArrayBuffer::new_copy(ctx, bytes)
    };
    native.set("randomBytes", Function::new(ctx.clone(), fill)?)?;

    let uuid = || {
        let mut bytes: [u8; 16] = random_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    };
    native.set("randomUuid", Function::new(ctx.clone(), uuid)?)
}

/// Bytes from the kernel.
pub(super) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_random(&mut bytes);
    bytes
}

fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the kernel gives random bytes, and the jail lets it");
}

fn text<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let encode = |ctx: Ctx<'js>, text: Value<'js>| {
        let (text, _) = raw::text(&text).unwrap_or_default();
        ArrayBuffer::new_copy(ctx, text)
    };
    native.set("utf8Encode", Function::new(ctx.clone(), encode)?)?;

    let decode =
        |ctx: Ctx<'js>, encoding: String, rest: ArrayBuffer<'js>, more: ArrayBuffer<'js>, fatal: bool, stream: bool| {
            let mut bytes = raw::bytes(&rest);
            bytes.extend(raw::bytes(&more));
            let (text, used) = match encoding.as_str() {
                "utf-8" => decode_utf8(&bytes, stream),
                "utf-16le" => decode_utf16(&bytes, stream),
                _ => (Some(bytes.iter().map(|byte| windows_1252(*byte)).collect()), bytes.len()),
            };
            let (text, used) = match text {
                Some(text) => (text, used),
                None if fatal => return Err(Exception::throw_type(&ctx, &format!("the bytes are not {encoding}"))),
                None if encoding == "utf-8" => (String::from_utf8_lossy(&bytes[..used]).into_owned(), used),
                None => (decode_units(&bytes[..used]).map(|unit| unit.unwrap_or('\u{fffd}')).collect(), used),
            };
            let answer = Array::new(ctx.clone())?;
            answer.set(0, text)?;
            answer.set(1, ArrayBuffer::new_copy(ctx, &bytes[used..])?)?;
            Ok(answer)
        };
    native.set("decode", Function::new(ctx.clone(), decode)?)?;

    let quote = |Text(text): Text| {
        let short: String = text.chars().take(100).collect();
        format!("{short:?}")
    };
    native.set("quote", Function::new(ctx.clone(), quote)?)
}

/// The text, if it is sound, and how many bytes belong to it; an unfinished end waits for more.
fn decode_utf8(bytes: &[u8], stream: bool) -> (Option<String>, usize) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), bytes.len()),
        Err(err) if stream && err.error_len().is_none() => {
            let used = err.valid_up_to();
            (Some(String::from_utf8_lossy(&bytes[..used]).into_owned()), used)
        }
        Err(_) => {
            let unfinished = match bytes.utf8_chunks().last() {
                Some(chunk) if stream && chunk.invalid().len() < 4 && bytes.ends_with(chunk.invalid()) => {
                    let is_start = std::str::from_utf8(chunk.invalid()).is_err_and(|err| err.error_len().is_none());
                    if is_start { chunk.invalid().len() } else { 0 }
                }
                _ => 0,
            };
            (None, bytes.len() - unfinished)
        }
    }
}

/// Half a unit at the end counts as a whole wrong one.
fn decode_units(bytes: &[u8]) -> impl Iterator<Item = std::result::Result<char, std::char::DecodeUtf16Error>> {
    const WRONG: u16 = 0xd800;
    char::decode_utf16(bytes.chunks(2).map(|pair| match *pair {
        [low, high] => u16::from_le_bytes([low, high]),
        _ => WRONG,
    }))
}

fn decode_utf16(bytes: &[u8], stream: bool) -> (Option<String>, usize) {
    let mut used = bytes.len() - bytes.len() % 2;
    let is_high = |at: usize| (0xd8..0xdc).contains(&bytes[at + 1]);
    if stream && used >= 2 && is_high(used - 2) {
        used -= 2;
    }
    if !stream && used < bytes.len() {
        return (None, bytes.len()); // half a unit at the end
    }
    let text = decode_units(&bytes[..used]).collect::<std::result::Result<String, _>>();
    (text.ok(), used)
}

/// What `latin1` means on the web.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘',
        '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..0xa0 => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

fn urls<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let parse = |Text(url): Text, base: Opt<Option<Text>>| -> Option<Vec<String>> {
        let base = match base.0.flatten() {
            Some(Text(base)) => Some(Url::parse(&base).ok()?),
            None => None,
        };
        let url = Url::options().base_url(base.as_ref()).parse(&url).ok()?;
        Some(url_parts(&url))
    };
    native.set("parseUrl", Function::new(ctx.clone(), parse)?)?;

    let set = |Text(href): Text, field: String, Text(value): Text| -> Option<Vec<String>> {
        let mut url = Url::parse(&href).ok()?;
        match field.as_str() {
            "href" => quirks::set_href(&mut url, &value).ok()?,
            "protocol" => quirks::set_protocol(&mut url, &value).ok()?,
            "username" => quirks::set_username(&mut url, &value).ok()?,
            "password" => quirks::set_password(&mut url, &value).ok()?,
            "host" => quirks::set_host(&mut url, &value).ok()?,
            "hostname" => quirks::set_hostname(&mut url, &value).ok()?,
            "port" => quirks::set_port(&mut url, &value).ok()?,
            "pathname" => quirks::set_pathname(&mut url, &value),
            "search" => quirks::set_search(&mut url, &value),
            _ => quirks::set_hash(&mut url, &value),
        }
        Some(url_parts(&url))
    };
    native.set("setUrl", Function::new(ctx.clone(), set)?)?;

    let parse_query = |Text(query): Text| -> Vec<Vec<String>> {
        form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| vec![name.into_owned(), value.into_owned()])
            .collect()
    };
    native.set("parseQuery", Function::new(ctx.clone(), parse_query)?)?;

    let format_query = |pairs: Vec<Vec<Text>>| {
        let pairs = pairs.iter().filter_map(|pair| Some((&pair.first()?.0, &pair.get(1)?.0)));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    };
    native.set("formatQuery", Function::new(ctx.clone(), format_query)?)
}

/// In the order of the prelude's list of fields.
fn url_parts(url: &Url) -> Vec<String> {
    vec![
        quirks::href(url).to_owned(),
        quirks::origin(url),
        quirks::protocol(url).to_owned(),
        quirks::username(url).to_owned(),
        quirks::password(url).to_owned(),
        quirks::host(url).to_owned(),
        quirks::hostname(url).to_owned(),
        quirks::port(url).to_owned(),
        quirks::pathname(url).to_owned(),
        quirks::search(url).to_owned(),
        quirks::hash(url).to_owned(),
    ]
}

/// Questions about what kind of object something is.
fn kinds<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    native.set("isRegex", Function::new(ctx.clone(), |value: Value<'js>| raw::is_regex(&value))?)?;
    native.set("isError", Function::new(ctx.clone(), |value: Value<'js>| value.is_error())?)?;
    let plain = raw::class_id(native);
    let is_exotic = move |value: Value<'js>| raw::class_id(&value) != plain;
    native.set("isExotic", Function::new(ctx.clone(), is_exotic)?)
}
