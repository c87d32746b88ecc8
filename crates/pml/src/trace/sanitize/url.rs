//! Addresses: passwords in front of the host, and the addresses of webhooks, which are secrets as a whole.

use super::{
    finding::Kind,
    scan::Scan,
    shape::{Class, DASH, DASH_COLON, DOTTED, PATH, TEAMS, is_random},
    value::{has_signs, is_placeholder, is_template},
};

/// Longest authority of an address that is looked at.
const MAX_AUTHORITY: usize = 1024;

/// Looks at the address around the `://` at `at`.
pub(super) fn userinfo(scan: &mut Scan<'_>, at: usize) {
    let bytes = scan.bytes;
    let start = at + 3;
    // An address inside of an address is looked at on its own.
    let rest = &bytes[start..bytes.len().min(start + MAX_AUTHORITY)];
    let is_end =
        |(index, byte): (usize, &u8)| ends_address(*byte) || *byte == b':' && rest[index..].starts_with(b"://");
    let end = start + rest.iter().enumerate().position(is_end).unwrap_or(rest.len());
    let address = &bytes[start..end];
    let authority =
        address.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).map_or(address, |cut| &address[..cut]);
    let Some(mut sign) = authority.iter().rposition(|byte| *byte == b'@') else {
        // `postgres://user:pa/ss@host`: a password with a slash that nobody has escaped.
        if !is_web(bytes, at)
            && authority.contains(&b':')
            && let Some(sign) = address.iter().rposition(|byte| *byte == b'@')
        {
            password(scan, start, sign);
        }
        return;
    };
    if !is_web(bytes, at) {
        sign = address.iter().take_while(|byte| !matches!(byte, b'?')).count().min(address.len());
        sign = address[..sign].iter().rposition(|byte| *byte == b'@').unwrap_or_default();
    }
    scan.addresses.push(start..start + sign + 1);
    password(scan, start, sign);
}

fn ends_address(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b'|' | b')')
}

fn is_web(bytes: &[u8], at: usize) -> bool {
    let scheme = &bytes[at.saturating_sub(5)..at];
    scheme.ends_with(b"http") || scheme.ends_with(b"https")
}

/// `user:password` in front of the `@` at `start + sign`.
fn password(scan: &mut Scan<'_>, start: usize, sign: usize) {
    let Some(userinfo) = scan.text.get(start..start + sign) else { return };
    let (user, password) = userinfo.split_once(':').map_or((userinfo, None), |(user, password)| (user, Some(password)));
    if let Some(password) = password.filter(|password| !is_template(password)) {
        scan.add(start + user.len() + 1..start + user.len() + 1 + password.len(), Kind::secret("url-password"));
    }
    // A token in the place of the user, as forges take it.
    let is_key =
        password.is_some() && user.len() >= 8 && user.bytes().all(|byte| byte.is_ascii_hexdigit()) && has_signs(user);
    if user.len() >= 20 && is_random(user.as_bytes()) || is_key {
        scan.add(start..start + user.len(), Kind::secret("url-token"));
    }
}

/// Hosts and paths behind which the rest of the address is a secret: what is found, the kind, which bytes belong to it, and
/// how many there must be.
pub(super) const WEBHOOKS: &[(&str, &str, Class, usize)] = &[
    ("hooks.slack.com/services/", "slack-webhook", PATH, 20),
    ("hooks.slack.com/workflows/", "slack-webhook", PATH, 20),
    ("hooks.slack.com/triggers/", "slack-webhook", PATH, 20),
    ("discord.com/api/webhooks/", "discord-webhook", PATH, 20),
    ("discordapp.com/api/webhooks/", "discord-webhook", PATH, 20),
    ("webhook.office.com/webhookb2/", "teams-webhook", TEAMS, 20),
    ("outlook.office.com/webhook/", "teams-webhook", TEAMS, 20),
    ("hooks.zapier.com/hooks/catch/", "zapier-webhook", PATH, 8),
    ("maker.ifttt.com/trigger/", "ifttt-webhook", PATH, 20),
    ("open.feishu.cn/open-apis/bot/v2/hook/", "feishu-webhook", DASH, 16),
    ("open.larksuite.com/open-apis/bot/v2/hook/", "feishu-webhook", DASH, 16),
    ("hook.eu1.make.com/", "make-webhook", DASH, 16),
    ("hook.us1.make.com/", "make-webhook", DASH, 16),
    ("hook.integromat.com/", "make-webhook", DASH, 16),
    ("hooks.airtable.com/workflows/", "airtable-webhook", PATH, 16),
    ("api.telegram.org/bot", "telegram-token", DASH_COLON, 20),
    ("api.telegram.org/file/bot", "telegram-token", DASH_COLON, 20),
    ("qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", "wecom-webhook", DASH, 16),
    ("events.pagerduty.com/integration/", "pagerduty-webhook", DASH, 16),
];

/// The rest of the address of a webhook, which begins at `at`.
pub(super) fn webhook(scan: &mut Scan<'_>, at: usize, (_, kind, class, least): (&str, &'static str, Class, usize)) {
    let end = class.run(scan.bytes, at, 512);
    if end - at >= least
        && !is_placeholder(scan.text.get(at..end).unwrap_or_default())
        && DOTTED.run(scan.bytes, at, 4) > at
    {
        scan.add(at..end, Kind::secret(kind));
    }
}
