//! Hashes and keyed hashes, for `crypto.subtle`.

use hmac::{Hmac, KeyInit, Mac};
use rquickjs::{ArrayBuffer, Ctx, Function, Object, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::raw;

/// Adds the functions to `native`. Both give nothing for an algorithm that they do not know.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let digest = |ctx: Ctx<'js>, algorithm: String, data: ArrayBuffer<'js>| {
        let data = raw::bytes(&data);
        let hash = match algorithm.as_str() {
            "SHA-1" => Some(Sha1::digest(&data).to_vec()),
            "SHA-256" => Some(Sha256::digest(&data).to_vec()),
            "SHA-384" => Some(Sha384::digest(&data).to_vec()),
            "SHA-512" => Some(Sha512::digest(&data).to_vec()),
            _ => None,
        };
        hash.map(|hash| ArrayBuffer::new_copy(ctx, hash)).transpose()
    };
    native.set("digest", Function::new(ctx.clone(), digest)?)?;

    let sign = |ctx: Ctx<'js>, algorithm: String, key: ArrayBuffer<'js>, data: ArrayBuffer<'js>| {
        let (key, data) = (raw::bytes(&key), raw::bytes(&data));
        let code = match algorithm.as_str() {
            "SHA-1" => code::<Hmac<Sha1>>(&key, &data),
            "SHA-256" => code::<Hmac<Sha256>>(&key, &data),
            "SHA-384" => code::<Hmac<Sha384>>(&key, &data),
            "SHA-512" => code::<Hmac<Sha512>>(&key, &data),
            _ => None,
        };
        code.map(|code| ArrayBuffer::new_copy(ctx, code)).transpose()
    };
    native.set("hmac", Function::new(ctx.clone(), sign)?)
}

fn code<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}
