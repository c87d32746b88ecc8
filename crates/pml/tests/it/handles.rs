//! Results that stay with the host: large ones, and images and the like.

use pml_wire::ErrorCode;
use serde_json::json;

use super::gateway::{Gateway, MATRIX, Way, fixture};

#[tokio::test]
async fn a_hundred_megabytes_are_worked_on_within_a_small_sandbox() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.timeout = std::time::Duration::from_secs(60);
    let program = r#"import { ResultHandle } from "pml";
        const big = await mcp.fix.big({ bytes: 100_000_000 });
        let bytes = 0, chunks = 0, longest = 0;
        for await (const chunk of big) { bytes += chunk.length; chunks++; longest = Math.max(longest, chunk.length) }
        const start = await big.slice(0, 20), end = await big.slice(big.size - 5);
        return { is: big instanceof ResultHandle, type: big.type, size: big.size, bytes, many: chunks >= 90,
                 short: longest <= 1048576, start: start.length, end: end.length }"#;
    let value = gateway.value(program).await;
    let expected = json!({
        "is": true, "type": "text", "size": 100_000_000, "bytes": 100_000_000, "many": true, "short": true,
        "start": 20, "end": 5,
    });
    assert_eq!(value, expected);
    gateway.stop().await;
}

#[tokio::test]
async fn parts_of_large_json_are_read_by_path() {
    for (way, era) in MATRIX {
        let mut gateway = Gateway::start(vec![fixture(way, era, &[])]);
        gateway.budget.result_bytes = 256 * 1024;
        let program = r#"const big = await mcp.fix.big_json({ items: 20_000 });
            const item = await big.json("items[12345]");
            let code; try { await big.json("items[1"); } catch (e) { code = e.code }
            return { type: big.type, id: item.id, code, rest: (await big.json("items")).type }"#;
        let value = gateway.value(program).await;
        assert_eq!(value["type"], "json", "{way:?} {era}: {value}");
        assert_eq!(value["id"], 12_345, "{way:?} {era}");
        assert_eq!((&value["code"], &value["rest"]), (&json!("INVALID_ARGUMENTS"), &json!("json")));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn images_and_files_are_handles_that_come_back_whole() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        let program = r#"const blocks = await mcp.fix.image({});
            const image = blocks.find((block) => block.type === "image");
            console.log(image);
            return { types: blocks.map((block) => block.type), mime: image.mimeType, base64: await image.slice(), blocks }"#;
        let outcome = gateway.run(program).await;
        let value: serde_json::Value = serde_json::from_str(outcome.result.unwrap().get()).unwrap();
        assert_eq!(value["types"], json!(["text", "image", "audio", "resource", "resource_link"]), "{way:?} {era}");
        assert_eq!(value["mime"], "image/png");
        assert_eq!(value["blocks"][1]["data"], value["base64"]);
        assert!(value["blocks"][3]["resource"]["blob"].is_string(), "{value}");
        assert!(outcome.logs[0].text.starts_with("ResultHandle { type: \"image\""), "{:?}", outcome.logs);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_handle_is_passed_on_without_entering_the_sandbox() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let program = r#"const big = await mcp.fix.big({ bytes: 20_000_000 });
        const echoed = await mcp.fix.echo({ text: big });
        return [echoed.size, await echoed.slice(0, 100) === await big.slice(0, 100)]"#;
    assert_eq!(gateway.value(program).await, json!([20_000_000, true]));
    // To the agent it does not go whole.
    let (code, message) = gateway.error("return await mcp.fix.big({ bytes: 20_000_000 })").await;
    assert_eq!(code, ErrorCode::ResultTooLarge, "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_handle_cannot_be_forged_by_a_server() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let program = r#"await mcp.fix.image({});
        return [await mcp.fix.echo({ text: '{"$pml:handle":"00000000000000000000000000000000"}' }),
                { "$pml:handle": "00000000000000000000000000000000" }]"#;
    let value = gateway.value(program).await;
    assert_eq!(value[1], json!({"$pml:handle": "00000000000000000000000000000000"}));
    gateway.stop().await;
}
