//! Results that outlive a run: a program works on what an earlier one returned.

use serde_json::{Value, json};

use super::peer::{ERAS, Era, Home, Peer};

/// Runs a program and gives the id under which its result was kept.
async fn kept(peer: &mut Peer, code: &str) -> String {
    let answer = peer.call("execute_code", json!({ "code": code })).await;
    let id = answer["structuredContent"]["result_handle"]["id"].as_str();
    let id = id.unwrap_or_else(|| panic!("{answer}")).to_owned();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!("await pml.result(\"{id}\")")), "{}", &text[text.len() - 300..]);
    id
}

async fn run(peer: &mut Peer, code: &str) -> Value {
    peer.call("execute_code", json!({ "code": code })).await
}

#[tokio::test]
async fn a_program_works_on_the_result_of_an_earlier_one() {
    for era in ERAS {
        let home = Home::with_fixture("[gateway]\noutput_tokens = 2000");
        let mut peer = home.connected(era).await;
        let items = "Array.from({ length: 3000 }, (_, id) => ({ id, name: `Größe ${id}` }))";
        let big = "await mcp.fix.echo({ text: '[9007199254740993]' })";
        let json = kept(&mut peer, &format!("return {{ items: {items}, big: {big} }}")).await;
        let text = kept(&mut peer, "return 'äöü\\n'.repeat(20000)").await;
        let result = run(
            &mut peer,
            &format!(
                "import {{ result }} from 'pml';
                const [{{ items, big }}, text] = await Promise.all([result('{json}'), result('{text}')]);
                const odd = items.filter((item) => item.id % 2);
                return [odd.length, items[7].name, text.length, typeof text, big, await mcp.fix.echo({{ text: items[2999].name }})]"
            ),
        )
        .await;
        let told = &result["structuredContent"];
        let expected = json!([1500, "Größe 7", 80_000, "string", [9_007_199_254_740_993_i64], "Größe 2999"]);
        assert_eq!(told["result"], expected, "{era:?}: {result}");
        assert!(told["warnings"][0].as_str().unwrap().contains("$.big[0]"), "{told}");
        // The console, too.
        let logs = run(&mut peer, "for (let i = 0; i < 5000; i++) console.log('line ' + i)").await;
        let id = logs["structuredContent"]["logs_handle"]["id"].as_str().unwrap();
        let lines = run(&mut peer, &format!("return (await pml.result('{id}')).trim().split('\\n').length")).await;
        assert_eq!(lines["structuredContent"]["result"], 5000);
        peer.end().await;
    }
}

#[tokio::test]
async fn what_is_larger_than_a_result_may_be_is_a_handle() {
    let home = Home::new("[gateway]\noutput_tokens = 2000\n[limits]\nresult_bytes = 65536");
    let mut peer = home.connected(Era::Legacy).await;
    let logs = run(&mut peer, "for (let i = 0; i < 5; i++) console.log('x'.repeat(50_000))").await;
    let id = logs["structuredContent"]["logs_handle"]["id"].as_str().unwrap();
    let code = format!("const log = await pml.result('{id}'); return [log.type, log.size, await log.slice(0, 3)]");
    assert_eq!(run(&mut peer, &code).await["structuredContent"]["result"], json!(["text", 250_005, "xxx"]));
    peer.end().await;
}

#[tokio::test]
async fn a_result_is_found_by_its_client_only() {
    let home = Home::new("[gateway]\noutput_tokens = 2000");
    let mut peer = home.connected(Era::Legacy).await;
    let id = kept(&mut peer, "return 'x'.repeat(100000)").await;
    let mut other = home.connected(Era::Legacy).await;
    for (code, part) in [
        (format!("return await pml.result('{id}')"), "there is no result `r_"),
        ("return await pml.result('r_0')".to_owned(), "there is no result `r_0`; results are kept for an hour"),
        ("return await pml.result('')".to_owned(), "there is no result ``"),
        ("return await pml.result('r_' + 'x'.repeat(1e6))".to_owned(), "there is no result `r_xxx"),
    ] {
        let answer = run(&mut other, &code).await;
        let error = &answer["structuredContent"]["error"];
        assert_eq!(error["code"], "INVALID_ARGUMENTS", "{answer}");
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    let answer = run(&mut other, "return await pml.result({})").await;
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("result takes the id of a result"), "{answer}");
    // Reads are counted, so that a loop of them ends.
    let answer = run(&mut other, "for (;;) await pml.result('r_0').catch(() => {})").await;
    assert_eq!(answer["structuredContent"]["error"]["code"], "CALL_BUDGET_SPENT", "{answer}");
    let answer = run(&mut peer, &format!("return (await pml.result('{id}')).length")).await;
    assert_eq!(answer["structuredContent"]["result"], 100_000, "its own client still finds it");
    other.end().await;
    peer.end().await;
}

#[tokio::test]
async fn a_program_by_itself_has_no_earlier_ones() {
    let sandbox = super::support::Sandbox::start();
    let value = sandbox.value("try { await pml.result('r_1') } catch (e) { return [e.code, e.message] }").await;
    assert_eq!(value, json!(["INVALID_ARGUMENTS", "there is no result `r_1`; results are kept by `pml serve` only"]));
    sandbox.stop().await;
}
