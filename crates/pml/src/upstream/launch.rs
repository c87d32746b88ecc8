//! What a stdio server is started with: its command line and its variables.
//!
//! Every user of the machine can read the arguments of a process, and a keeper lives as long as its server. So a keeper
//! gets neither in its own arguments or environment: pml writes them to the server's input, before anything else, and
//! the process that is about to become the server reads them from there, and not a byte more.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
};

use super::settings::Secret;

/// More than any system allows for arguments and variables together.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A server's command line and variables, as the process reads them that becomes the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// The message: its length, the number of arguments, then the program, the arguments, and names and values of
/// variables, each with a zero byte behind it. `None` if there is a zero byte in one of them, which no process can have.
pub(super) fn encode<'a>(
    program: &Path,
    args: &[Secret],
    env: impl Iterator<Item = (&'a String, &'a Secret)>,
) -> Option<Vec<u8>> {
    let mut message = vec![0; 4];
    message.extend(u32::try_from(args.len()).ok()?.to_be_bytes());
    let program = program.as_os_str().as_bytes();
    let args = args.iter().map(|arg| arg.reveal().as_bytes());
    let env = env.flat_map(|(name, value)| [name.as_bytes(), value.reveal().as_bytes()]);
    for text in [program].into_iter().chain(args).chain(env) {
        if text.contains(&0) {
            return None;
        }
        message.extend(text);
        message.push(0);
    }
    let length = u32::try_from(message.len() - 4).ok()?.to_be_bytes();
    message[..4].copy_from_slice(&length);
    Some(message)
}

/// Reads one message. `reader` must not be buffered: what follows belongs to the server.
pub(super) fn read(mut reader: impl Read) -> io::Result<Launch> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(damaged());
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    let (count, texts) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let count = u32::from_be_bytes(*count) as usize;
    let texts = texts.strip_suffix(&[0]).ok_or_else(damaged)?;
    let mut texts = texts.split(|byte| *byte == 0).map(|text| OsString::from_vec(text.to_vec()));
    let program = texts.next().ok_or_else(damaged)?;
    let args: Vec<_> = texts.by_ref().take(count).collect();
    let rest: Vec<_> = texts.collect();
    if args.len() != count || !rest.len().is_multiple_of(2) {
        return Err(damaged());
    }
    let env = rest.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Ok(Launch { program, args, env })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().map(|text| Secret::new(*text)).collect()
    }

    #[test]
    fn a_launch_is_read_as_it_was_written_and_no_byte_more() {
        let env = BTreeMap::from([("A".to_owned(), Secret::new("")), ("B=C".to_owned(), Secret::new("d=\n"))]);
        let mut message = encode(Path::new("/bin/ä b"), &secrets(&["", "--token", "x y"]), env.iter()).unwrap();
        message.extend(b"{\"jsonrpc\"");
        let mut rest = message.as_slice();
        let launch = read(&mut rest).unwrap();
        assert_eq!(rest, b"{\"jsonrpc\"");
        assert_eq!((launch.program, launch.args), ("/bin/ä b".into(), vec!["".into(), "--token".into(), "x y".into()]));
        assert_eq!(launch.env, [("A".into(), "".into()), ("B=C".into(), "d=\n".into())]);
        let bare = encode(Path::new("x"), &[], BTreeMap::new().iter()).unwrap();
        let expected = Launch { program: "x".into(), args: Vec::new(), env: Vec::new() };
        assert_eq!(read(bare.as_slice()).unwrap(), expected);
        assert_eq!(encode(Path::new("x"), &secrets(&["a\0b"]), BTreeMap::new().iter()), None);
    }

    #[test]
    fn what_is_no_launch_is_an_error() {
        let whole = encode(Path::new("x"), &secrets(&["a"]), BTreeMap::new().iter()).unwrap();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        for bytes in [&[255; 8][..], &[0; 4], &[0, 0, 0, 4, 0, 0, 0, 0], &[0, 0, 0, 6, 0, 0, 0, 9, b'x', 0]] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
