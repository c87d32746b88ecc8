//! E-mail addresses.

use super::{encoded::is_inside, finding::Kind, scan::Scan};

const MAX_LOCAL: usize = 64;
const MAX_DOMAIN: usize = 255;

/// Looks at every `@`.
pub(super) fn find(scan: &mut Scan<'_>) {
    let bytes = scan.bytes;
    let mut after = 0;
    for sign in memchr::memchr_iter(b'@', bytes) {
        if let Some(start) = local_start(bytes, sign, after)
            && let Some(end) = domain_end(bytes, sign)
            && !is_login(scan, start, sign)
            && !is_inside(&scan.data, start)
        {
            scan.add(start..end, Kind::Email);
            after = end;
        }
    }
    for open in memchr::memchr2_iter(b'(', b'[', bytes) {
        if let Some(span) = spelled_out(bytes, open) {
            scan.add(span, Kind::Email);
        }
    }
}

/// `john (at) example.com`, `john [at] example [dot] com`; the sign begins at `open`.
fn spelled_out(bytes: &[u8], open: usize) -> Option<std::ops::Range<usize>> {
    let word = |at: usize, word: &[u8]| {
        let rest = bytes.get(at..)?;
        let space = usize::from(rest.first() == Some(&b' '));
        let length = word.len() + 2;
        let sign = rest.get(space..space + length)?;
        let is_sign = matches!((sign[0], sign[length - 1]), (b'(', b')') | (b'[', b']'))
            && sign[1..length - 1].eq_ignore_ascii_case(word);
        let end = at + space + length;
        is_sign.then(|| end + usize::from(bytes.get(end) == Some(&b' ')))
    };
    let mut at = word(open, b"at")?;
    let head = &bytes[..open - usize::from(open > 0 && bytes[open - 1] == b' ')];
    let local = head.iter().rev().take(MAX_LOCAL).take_while(|byte| is_local(**byte)).count();
    let mut dots = 0;
    let end = loop {
        let label =
            at + bytes[at..].iter().take(63).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
        if label == at {
            return None;
        }
        let is_dot = bytes.get(label) == Some(&b'.') && bytes.get(label + 1).is_some_and(u8::is_ascii_alphanumeric);
        match word(label, b"dot").or(is_dot.then_some(label + 1)) {
            Some(next) if dots < 8 => at = next,
            _ => break label,
        }
        dots += 1;
    };
    (local > 0 && dots > 0 && bytes[end - 1].is_ascii_alphabetic()).then(|| head.len() - local..end)
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || b".!#$%&'*+/=?^_`{|}~-".contains(&byte) && !b"/='`{|}!#$?&*".contains(&byte)
        || byte >= 0x80
}

fn local_start(bytes: &[u8], sign: usize, after: usize) -> Option<usize> {
    let head = &bytes[after.max(sign.saturating_sub(MAX_LOCAL))..sign];
    // `"john doe"@example.com`
    if let Some((b'"', inside)) = head.split_last()
        && let Some(open) = inside.iter().rposition(|byte| *byte == b'"')
        && inside[open + 1..].iter().all(|byte| is_local(*byte) || *byte == b' ')
        && open + 1 < inside.len()
    {
        return Some(sign - head.len() + open);
    }
    let length = head.iter().rev().take_while(|byte| is_local(**byte)).count();
    let mut start = sign - length;
    while start < sign && !bytes[start].is_ascii_alphanumeric() && bytes[start] < 0x80 {
        start += 1;
    }
    // `\njane@…` in text that was escaped.
    if start > 0 && bytes[start - 1] == b'\\' && matches!(bytes[start], b'n' | b't' | b'r') {
        start += 1;
    }
    let is_local = start < sign
        && bytes[sign - 1] != b'.'
        && bytes[start..sign].iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80);
    // `image@2x.png` and `package@1.2` have names in front, but so have persons; the domain decides.
    is_local.then_some(start)
}

fn domain_end(bytes: &[u8], sign: usize) -> Option<usize> {
    let rest = &bytes[sign + 1..];
    let is_domain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') || *byte >= 0x80;
    let length = rest.iter().take(MAX_DOMAIN).take_while(|byte| is_domain(byte)).count();
    let mut length = rest[..length].iter().rposition(|byte| !matches!(byte, b'.' | b'-')).map_or(0, |last| last + 1);
    // `jane@example.com.Then`: a label in capitals begins the next sentence.
    let domain = &rest[..length];
    if !domain.first()?.is_ascii_alphanumeric() && domain[0] < 0x80 {
        return None;
    }
    let dot = domain.iter().rposition(|byte| *byte == b'.')?;
    let top = &domain[dot + 1..];
    if rest.get(length) == Some(&b'_') {
        return None;
    }
    // What follows in another script is no part of the domain.
    let ascii = top.iter().take_while(|byte| byte.is_ascii()).count();
    let top = if ascii >= 2 && ascii < top.len() {
        length = dot + 1 + ascii;
        &top[..ascii]
    } else {
        top
    };
    let is_top = top.len() >= 2 && top.len() <= 24 && !top.iter().any(u8::is_ascii_digit) && !top.contains(&b'-');
    let is_punycode = top.starts_with(b"xn--");
    let name = top.to_ascii_lowercase();
    const FILES: [&str; 33] = [
        "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "js", "ts", "tsx", "jsx", "mjs", "css", "scss", "json",
        "md", "html", "xml", "yaml", "yml", "toml", "txt", "pdf", "zip", "tgz", "service", "socket", "target", "timer",
        "mount", "slice", "lock", "log",
    ];
    let is_file = FILES.iter().any(|file| file.as_bytes() == name);
    ((is_top || is_punycode) && !is_file).then_some(sign + 1 + length)
}

/// A user of a machine, not of a mailbox: `git@github.com:…`, `ssh deploy@host.example`, `https://user@host`.
fn is_login(scan: &Scan<'_>, start: usize, sign: usize) -> bool {
    let before = &scan.bytes[start.saturating_sub(8)..start];
    let is_ssh = [b"ssh ".as_slice(), b"scp ", b"sftp ", b"rsync "].iter().any(|word| before.ends_with(word));
    &scan.bytes[start..sign] == b"git"
        || is_ssh
        || before.ends_with(b"://")
        || scan.addresses.iter().any(|address| address.contains(&sign))
}
