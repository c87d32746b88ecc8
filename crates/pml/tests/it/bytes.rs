//! Bytes, hashes and headers as models handle them.

use serde_json::json;

use crate::support::Sandbox;

#[tokio::test]
async fn bytes_go_through_every_encoding() {
    let table = [
        (
            "['utf8', 'hex', 'base64', 'base64url', 'latin1', 'utf16le'].map((e) => Buffer.from('a?>é', e === 'hex' ? 'utf8' : e).length)",
            json!([5, 5, 0, 0, 4, 8]),
        ),
        (
            "['utf8', 'hex', 'base64', 'base64url', 'latin1'].map((e) => Buffer.from('a?b>é').toString(e))",
            json!(["a?b>é", "613f623ec3a9", "YT9iPsOp", "YT9iPsOp", "a?b>Ã©"]),
        ),
        (
            "[Buffer.from('aGk=', 'base64') + '', Buffer.from('aG\\nk', 'base64') + '', Buffer.from('-_8', 'base64').toString('hex'), Buffer.from('ff0g', 'hex').length]",
            json!(["hi", "hi", "fbff", 1]),
        ),
        ("Buffer.from([1, 256, -1])", json!({"type": "Buffer", "data": [1, 0, 255]})),
        ("Buffer.concat([Buffer.from('a'), new Uint8Array([98]), Buffer.from('c')]).toString('utf8', 1)", json!("bc")),
        (
            "const b = Buffer.from('hello'); [b.slice(1, 3) + '', b.indexOf('l'), b.includes('lo'), b.equals(Buffer.from('hello')), Buffer.isBuffer(b), b instanceof Uint8Array, Buffer.byteLength('é')]",
            json!(["el", 2, true, true, true, true, 2]),
        ),
        (
            "Buffer.alloc(4, 'ab') + Buffer.from(JSON.parse(JSON.stringify(Buffer.from('z')))).toString()",
            json!("ababz"),
        ),
        (
            "const b = new Blob(['a€', new Uint8Array([98]), new Blob(['c'])], { type: 'Text/Plain' }); [b.size, b.type, await b.text(), await b.slice(4).text(), (await b.arrayBuffer()).byteLength]",
            json!([6, "text/plain", "a€bc", "bc", 6]),
        ),
        (
            "const h = new Headers({ 'Content-Type': 'x', b: 1 }); h.append('B', 2); h.set('c', ' 3 '); h.delete('C'); [h.get('content-type'), h.has('c'), h.get('none'), [...h], JSON.stringify(h)]",
            json!([
                "x",
                false,
                null,
                [["b", "1, 2"], ["content-type", "x"]],
                "{\"b\":\"1, 2\",\"content-type\":\"x\"}"
            ]),
        ),
        ("new Headers([['Set-Cookie', 'a'], ['set-cookie', 'b']]).getSetCookie()", json!(["a", "b"])),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

/// The values are those of FIPS 180-4 for `abc`, and of RFC 2202 and RFC 4231, test case 2.
#[tokio::test]
async fn hashes_are_those_of_the_standards() {
    let program = "const bytes = new TextEncoder().encode('abc');
        const hex = (it) => Buffer.from(it).toString('hex');
        const out = {};
        for (const hash of ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512']) {
            const key = await crypto.subtle.importKey('raw', Buffer.from('Jefe'), { name: 'HMAC', hash }, true, ['sign', 'verify']);
            const data = Buffer.from('what do ya want for nothing?');
            const signature = await crypto.subtle.sign('HMAC', key, data);
            const right = await crypto.subtle.verify('HMAC', key, signature, data);
            const wrong = await crypto.subtle.verify({ name: 'HMAC' }, key, signature, bytes);
            out[hash] = [hex(await crypto.subtle.digest(hash, bytes)).slice(0, 16), hex(signature).slice(0, 16), right, wrong];
        }
        out";
    let sandbox = Sandbox::start();
    let expected = json!({
        "SHA-1": ["a9993e364706816a", "effcdf6ae5eb2fa2", true, false],
        "SHA-256": ["ba7816bf8f01cfea", "5bdcc146bf60754e", true, false],
        "SHA-384": ["cb00753f45a35e8b", "af45d2e376484031", true, false],
        "SHA-512": ["ddaf35a193617aba", "164b7a7bfcf819e2", true, false],
    });
    assert_eq!(sandbox.value(program).await, expected);
    sandbox.stop().await;
}

#[tokio::test]
async fn what_is_not_there_says_what_is() {
    let table = [
        ("Buffer.from('a', 'utf7')", "unknown encoding `utf7`"),
        ("Buffer.from('abcd').readUInt32LE(0)", "use a DataView"),
        ("Buffer.from(5)", "takes a text, an array of bytes or a buffer"),
        ("await crypto.subtle.digest('MD5', new Uint8Array(1))", "SHA-256"),
        ("await crypto.subtle.encrypt({}, 1, 2)", "encrypt is not supported here"),
        (
            "await crypto.subtle.importKey('jwk', {}, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])",
            "the format `jwk`",
        ),
        ("crypto.createHash('sha256')", "crypto.subtle.digest"),
        ("new Headers({ 'a b': 1 })", "`a b` is not a name of a header"),
        ("new Headers({ a: 'x\\ny' })", "one line"),
        ("new Blob(['a']).stream()", "text()"),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert!(error.message.contains(expected), "{program}: {error:?}");
    }
    for (import, expected) in
        [("node:crypto", "crypto.subtle"), ("buffer", "`Buffer` is a global"), ("lodash", "MCP tool")]
    {
        let error = sandbox.run(&format!("import x from '{import}'; x()")).await.result.unwrap_err();
        assert!(error.hint.as_deref().unwrap_or_default().contains(expected), "{import}: {error:?}");
    }
    sandbox.stop().await;
}
