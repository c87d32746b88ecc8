//! Tokens of services that are known by how they begin.
//!
//! Each row is a prefix and the parts behind it. Lengths are those that the services issue, with some room where the
//! prefix alone leaves no doubt: services lengthen their tokens, and a token that is too long is still a token.
//! Formats without a prefix (a datadog key is 32 hexadecimal digits) are found by the name they stand next to instead.

use super::shape::{
    ALNUM, ANY_HEX, BASE64, DASH, DIGIT, DOTTED, HEX, HEX_DASH, LONG, LOWER, PERCENTED,
    Part::{self, Literal, Run},
    TOKEN68, UPPER, WORD, end_of_parts, is_random, starts_token,
};

/// A format of tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    /// The name in the marker.
    pub(super) kind: &'static str,
    pub(super) prefix: &'static str,
    pub(super) parts: &'static [Part],
    /// The prefix is short or ordinary, so what follows must also look random.
    must_be_random: bool,
}

impl Service {
    /// Where the token ends that begins at `start` with the prefix of this service.
    pub(super) fn end(&self, bytes: &[u8], start: usize) -> Option<usize> {
        let tail = start + self.prefix.len();
        bytes.get(start..tail).filter(|found| *found == self.prefix.as_bytes())?;
        starts_token(bytes, start).then_some(())?;
        // What is refused is refused after a few bytes, or a flood of prefixes would be read again and again.
        if let Some(Run(class, ..)) = self.parts.first() {
            let head = &bytes[tail..class.run(bytes, tail, 256)];
            let is_hopeless = is_filler(head) || self.must_be_random && self.parts.len() == 1 && !is_random(head);
            (!is_hopeless).then_some(())?;
        }
        let end = end_of_parts(bytes, tail, self.parts)?;
        let end = tail + trimmed(&bytes[tail..end]);
        let token = &bytes[tail..end];
        let is_fine = match self.must_be_random {
            true => is_random(token),
            false => !is_filler(token),
        };
        is_fine.then_some(end)
    }
}

/// The length without punctuation that ends a sentence rather than a token.
fn trimmed(token: &[u8]) -> usize {
    token.iter().rposition(|byte| !matches!(byte, b'.' | b':' | b'-')).map_or(0, |last| last + 1)
}

/// Is this what people write where a token belongs: `xxxx`, `....`, `0000`?
fn is_filler(token: &[u8]) -> bool {
    let mut seen = [false; 256];
    token.iter().take(256).for_each(|byte| seen[*byte as usize] = true);
    seen.iter().filter(|is_seen| **is_seen).count() < 4
}

const fn distinct(kind: &'static str, prefix: &'static str, parts: &'static [Part]) -> Service {
    Service { kind, prefix, parts, must_be_random: false }
}

const fn random(kind: &'static str, prefix: &'static str, parts: &'static [Part]) -> Service {
    Service { kind, prefix, parts, must_be_random: true }
}

#[rustfmt::skip]
pub(super) const SERVICES: &[Service] = &[
    // clouds
    distinct("aws-access-key", "AKIA", &[Run(UPPER, 16, 16)]),
    distinct("aws-access-key", "ASIA", &[Run(UPPER, 16, 16)]),
    distinct("aws-access-key", "ABIA", &[Run(UPPER, 16, 16)]),
    distinct("aws-access-key", "ACCA", &[Run(UPPER, 16, 16)]),
    distinct("aws-bedrock-key", "ABSK", &[Run(BASE64, 60, LONG)]),
    distinct("aws-bedrock-key", "bedrock-api-key-", &[Run(BASE64, 20, LONG)]),
    distinct("aws-mws-token", "amzn.mws.", &[Run(HEX_DASH, 36, 36)]),
    distinct("aws-session-token", "FwoGZXIvYXdz", &[Run(BASE64, 40, LONG)]),
    distinct("aws-session-token", "IQoJb3JpZ2lu", &[Run(BASE64, 40, LONG)]),
    distinct("google-api-key", "AIza", &[Run(DASH, 35, 35)]),
    distinct("google-oauth-token", "ya29.", &[Run(DOTTED, 20, LONG)]),
    distinct("google-oauth-token", "1//0", &[Run(DASH, 25, LONG)]),
    distinct("google-oauth-secret", "GOCSPX-", &[Run(DASH, 20, LONG)]),
    distinct("alibaba-access-key", "LTAI", &[Run(ALNUM, 12, 30)]),
    distinct("tencent-secret-id", "AKID", &[Run(ALNUM, 28, 40)]),
    distinct("yandex-api-key", "AQVN", &[Run(DASH, 30, LONG)]),
    random("yandex-iam-token", "t1.", &[Run(DOTTED, 60, LONG)]),
    distinct("yandex-oauth-token", "y0_", &[Run(DASH, 30, LONG)]),
    distinct("digitalocean-token", "dop_v1_", &[Run(HEX, 50, LONG)]),
    distinct("digitalocean-token", "doo_v1_", &[Run(HEX, 50, LONG)]),
    distinct("digitalocean-token", "dor_v1_", &[Run(HEX, 50, LONG)]),
    distinct("scaleway-key", "SCW", &[Run(UPPER, 17, 17)]),
    distinct("heroku-api-key", "HRKU-", &[Run(DASH, 30, LONG)]),
    distinct("fly-token", "FlyV1", &[Literal(" "), Run(DOTTED, 40, LONG)]),
    distinct("fly-token", "fm1_", &[Run(TOKEN68, 40, LONG)]),
    distinct("fly-token", "fm2_", &[Run(TOKEN68, 40, LONG)]),
    distinct("fly-token", "fo1_", &[Run(DASH, 30, LONG)]),
    distinct("vercel-token", "vercel_blob_rw_", &[Run(WORD, 20, LONG)]),
    distinct("vercel-token", "vcp_", &[Run(ALNUM, 20, LONG)]),
    distinct("vercel-token", "vci_", &[Run(ALNUM, 20, LONG)]),
    distinct("vercel-token", "vca_", &[Run(ALNUM, 20, LONG)]),
    distinct("vercel-token", "vcr_", &[Run(ALNUM, 20, LONG)]),
    distinct("vercel-token", "vck_", &[Run(ALNUM, 20, LONG)]),
    distinct("netlify-token", "nfp_", &[Run(ALNUM, 30, LONG)]),
    distinct("render-key", "rnd_", &[Run(ALNUM, 24, LONG)]),
    distinct("cloudflare-origin-key", "v1.0-", &[Run(HEX, 24, 24), Literal("-"), Run(HEX, 100, LONG)]),
    distinct("cloudflare-token", "cfut_", &[Run(ALNUM, 30, LONG)]),
    distinct("cloudflare-token", "cfat_", &[Run(ALNUM, 30, LONG)]),
    distinct("tailscale-key", "tskey-", &[Run(DASH, 20, LONG)]),
    distinct("pulumi-token", "pul-", &[Run(HEX, 40, 40)]),
    distinct("terraform-token", "atlasv1.", &[Run(DASH, 50, LONG)]),
    distinct("planetscale-token", "pscale_tkn_", &[Run(DOTTED, 30, LONG)]),
    distinct("planetscale-token", "pscale_oauth_", &[Run(DOTTED, 30, LONG)]),
    distinct("planetscale-password", "pscale_pw_", &[Run(DOTTED, 30, LONG)]),
    distinct("supabase-token", "sbp_", &[Run(HEX, 40, LONG)]),
    distinct("supabase-key", "sb_secret_", &[Run(DASH, 20, LONG)]),
    distinct("neon-key", "napi_", &[Run(ALNUM, 30, LONG)]),
    distinct("mongodb-atlas-key", "mdb_sa_sk_", &[Run(DASH, 30, LONG)]),
    distinct("cockroach-key", "CCDB1_", &[Run(DASH, 30, LONG)]),
    distinct("aiven-token", "AVNS_", &[Run(DASH, 15, LONG)]),
    distinct("databricks-token", "dapi", &[Run(HEX, 32, 32)]),
    distinct("dbt-token", "dbtc_", &[Run(DASH, 30, LONG)]),
    distinct("dbt-token", "dbtu_", &[Run(DASH, 30, LONG)]),
    distinct("fauna-key", "fnA", &[Run(DASH, 37, 37)]),
    distinct("tinybird-token", "p.eyJ", &[Run(DOTTED, 40, LONG)]),
    distinct("snowflake-token", "ver:1-hint:", &[Run(TOKEN68, 30, LONG)]),
    // forges and packages
    distinct("github-token", "ghp_", &[Run(ALNUM, 30, LONG)]),
    distinct("github-token", "gho_", &[Run(ALNUM, 30, LONG)]),
    distinct("github-token", "ghu_", &[Run(ALNUM, 30, LONG)]),
    distinct("github-token", "ghs_", &[Run(DOTTED, 30, LONG)]),
    distinct("github-token", "ghr_", &[Run(ALNUM, 30, LONG)]),
    distinct("github-token", "github_pat_", &[Run(WORD, 40, LONG)]),
    distinct("gitlab-token", "glpat-", &[Run(DOTTED, 20, LONG)]),
    distinct("gitlab-token", "gldt-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glft-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glsoat-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glrt-", &[Run(DOTTED, 20, LONG)]),
    distinct("gitlab-token", "glrtr-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glcbt-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glptt-", &[Run(HEX, 40, 40)]),
    distinct("gitlab-token", "glimt-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glagent-", &[Run(DASH, 40, LONG)]),
    distinct("gitlab-token", "gloas-", &[Run(DASH, 40, LONG)]),
    distinct("gitlab-token", "glffct-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "glwt-", &[Run(DASH, 20, LONG)]),
    distinct("gitlab-token", "GR1348941", &[Run(DASH, 20, LONG)]),
    distinct("bitbucket-token", "ATBB", &[Run(ALNUM, 24, LONG)]),
    distinct("atlassian-token", "ATATT3", &[Run(TOKEN68, 60, LONG)]),
    distinct("atlassian-token", "ATCTT3", &[Run(TOKEN68, 60, LONG)]),
    distinct("atlassian-token", "ATSTT3", &[Run(TOKEN68, 60, LONG)]),
    distinct("npm-token", "npm_", &[Run(ALNUM, 30, LONG)]),
    distinct("pypi-token", "pypi-AgE", &[Run(DASH, 50, LONG)]),
    distinct("rubygems-key", "rubygems_", &[Run(HEX, 40, LONG)]),
    distinct("crates-io-token", "cio", &[Run(ALNUM, 32, 32)]),
    distinct("nuget-key", "oy2", &[Run(LOWER, 43, 43)]),
    distinct("clojars-token", "CLOJARS_", &[Run(LOWER, 50, LONG)]),
    distinct("docker-token", "dckr_pat_", &[Run(DASH, 20, LONG)]),
    distinct("docker-token", "dckr_oat_", &[Run(DASH, 20, LONG)]),
    distinct("jfrog-key", "AKCp", &[Run(ALNUM, 60, LONG)]),
    distinct("jfrog-token", "cmVmdGtuO", &[Run(BASE64, 40, LONG)]),
    distinct("sonar-token", "sqp_", &[Run(HEX, 40, 40)]),
    distinct("sonar-token", "squ_", &[Run(HEX, 40, 40)]),
    distinct("sonar-token", "sqa_", &[Run(HEX, 40, 40)]),
    distinct("circleci-token", "CCIPAT_", &[Run(DASH, 30, LONG)]),
    distinct("circleci-token", "CCIPRJ_", &[Run(DASH, 30, LONG)]),
    distinct("buildkite-token", "bkua_", &[Run(ALNUM, 30, LONG)]),
    distinct("buildkite-token", "bkct_", &[Run(ALNUM, 30, LONG)]),
    distinct("buildkite-token", "bkaj_", &[Run(ALNUM, 30, LONG)]),
    distinct("sourcegraph-token", "sgp_", &[Run(WORD, 30, LONG)]),
    distinct("sourcegraph-token", "sgd_", &[Run(WORD, 30, LONG)]),
    distinct("sourcegraph-token", "slk_", &[Run(HEX, 60, LONG)]),
    distinct("socket-token", "sktsec_", &[Run(DASH, 30, LONG)]),
    distinct("chromatic-token", "chpt_", &[Run(ALNUM, 12, LONG)]),
    distinct("octopus-key", "API-", &[Run(UPPER, 25, 26)]),
    distinct("harness-token", "pat.", &[Run(DASH, 22, 22), Literal("."), Run(ALNUM, 24, 24), Literal("."), Run(ALNUM, 20, 20)]),
    distinct("harness-token", "sat.", &[Run(DASH, 22, 22), Literal("."), Run(ALNUM, 24, 24), Literal("."), Run(ALNUM, 20, 20)]),
    distinct("launchdarkly-key", "sdk-", &[Run(HEX_DASH, 36, 36)]),
    distinct("launchdarkly-key", "api-", &[Run(HEX_DASH, 36, 36)]),
    distinct("prefect-key", "pnu_", &[Run(ALNUM, 36, 36)]),
    distinct("prefect-key", "pnb_", &[Run(ALNUM, 36, 36)]),
    // chat and mail
    distinct("slack-token", "xoxb-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxp-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxa-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxr-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxs-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxo-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxc-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxd-", &[Run(TOKEN68, 20, LONG)]),
    distinct("slack-token", "xoxe-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xoxe.xox", &[Run(DOTTED, 20, LONG)]),
    distinct("slack-token", "xwfp-", &[Run(DASH, 20, LONG)]),
    distinct("slack-token", "xapp-", &[Run(DASH, 20, LONG)]),
    distinct("discord-token", "mfa.", &[Run(DASH, 60, LONG)]),
    distinct("telegram-token", "bot", &[Run(DIGIT, 8, 10), Literal(":"), Run(DASH, 35, 35)]),
    distinct("sendgrid-key", "SG.", &[Run(DASH, 16, 32), Literal("."), Run(DASH, 32, 64)]),
    distinct("mailgun-key", "key-", &[Run(HEX, 32, 32)]),
    distinct("mailgun-key", "pubkey-", &[Run(HEX, 32, 32)]),
    distinct("brevo-key", "xkeysib-", &[Run(DASH, 40, LONG)]),
    distinct("brevo-key", "xsmtpsib-", &[Run(DASH, 40, LONG)]),
    distinct("resend-key", "re_", &[Run(ALNUM, 8, 8), Literal("_"), Run(ALNUM, 20, LONG)]),
    random("resend-key", "re_", &[Run(ALNUM, 24, LONG)]),
    distinct("mailersend-key", "mlsn.", &[Run(HEX, 40, LONG)]),
    random("mandrill-key", "md-", &[Run(DASH, 22, 22)]),
    distinct("twilio-key", "SK", &[Run(HEX, 32, 32)]),
    // models
    distinct("openai-key", "sk-proj-", &[Run(DASH, 20, LONG)]),
    distinct("openai-key", "sk-svcacct-", &[Run(DASH, 20, LONG)]),
    distinct("openai-key", "sk-admin-", &[Run(DASH, 20, LONG)]),
    distinct("openai-key", "sk-None-", &[Run(DASH, 20, LONG)]),
    random("openai-key", "sk-", &[Run(ALNUM, 20, LONG)]),
    distinct("anthropic-key", "sk-ant-", &[Run(DASH, 20, LONG)]),
    distinct("openrouter-key", "sk-or-", &[Run(DASH, 20, LONG)]),
    distinct("langfuse-key", "sk-lf-", &[Run(DASH, 20, LONG)]),
    distinct("langfuse-key", "pk-lf-", &[Run(DASH, 20, LONG)]),
    distinct("litellm-key", "sk-litellm-", &[Run(DASH, 16, LONG)]),
    distinct("langsmith-key", "lsv2_pt_", &[Run(WORD, 30, LONG)]),
    distinct("langsmith-key", "lsv2_sk_", &[Run(WORD, 30, LONG)]),
    distinct("langsmith-key", "ls__", &[Run(ALNUM, 30, LONG)]),
    distinct("groq-key", "gsk_", &[Run(ALNUM, 30, LONG)]),
    distinct("xai-key", "xai-", &[Run(DASH, 40, LONG)]),
    distinct("huggingface-token", "hf_", &[Run(ALNUM, 28, LONG)]),
    distinct("huggingface-token", "api_org_", &[Run(ALNUM, 28, LONG)]),
    distinct("replicate-token", "r8_", &[Run(ALNUM, 30, LONG)]),
    distinct("perplexity-key", "pplx-", &[Run(ALNUM, 30, LONG)]),
    random("fireworks-key", "fw_", &[Run(ALNUM, 20, LONG)]),
    distinct("together-key", "tgp_v1_", &[Run(DASH, 20, LONG)]),
    distinct("anyscale-key", "esecret_", &[Run(ALNUM, 20, LONG)]),
    distinct("cerebras-key", "csk-", &[Run(ALNUM, 30, LONG)]),
    distinct("nvidia-key", "nvapi-", &[Run(DASH, 40, LONG)]),
    distinct("pinecone-key", "pcsk_", &[Run(WORD, 30, LONG)]),
    distinct("elevenlabs-key", "sk_", &[Run(HEX, 48, 48)]),
    distinct("wandb-key", "wandb_v1_", &[Run(DASH, 30, LONG)]),
    distinct("tavily-key", "tvly-", &[Run(DASH, 20, LONG)]),
    distinct("firecrawl-key", "fc-", &[Run(HEX, 32, 32)]),
    distinct("jina-key", "jina_", &[Run(DASH, 40, LONG)]),
    random("voyage-key", "pa-", &[Run(DASH, 40, LONG)]),
    random("nomic-key", "nk-", &[Run(DASH, 30, LONG)]),
    distinct("e2b-key", "e2b_", &[Run(HEX, 40, 40)]),
    random("modal-token", "ak-", &[Run(ALNUM, 22, 22)]),
    random("modal-token", "as-", &[Run(ALNUM, 22, 22)]),
    distinct("helicone-key", "sk-helicone-", &[Run(DASH, 20, LONG)]),
    distinct("helicone-key", "pk-helicone-", &[Run(DASH, 20, LONG)]),
    distinct("portkey-key", "pk-portkey-", &[Run(DASH, 16, LONG)]),
    distinct("mem0-key", "m0-", &[Run(ALNUM, 38, LONG)]),
    // money
    distinct("stripe-key", "sk_live_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-key", "sk_test_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-key", "sk_prod_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-key", "rk_live_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-key", "rk_test_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-key", "pk_live_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-key", "pk_test_", &[Run(WORD, 10, LONG)]),
    distinct("stripe-webhook-secret", "whsec_", &[Run(BASE64, 20, LONG)]),
    distinct("braintree-token", "access_token$production$", &[Run(LOWER, 16, 16), Literal("$"), Run(HEX, 32, 32)]),
    distinct("braintree-token", "access_token$sandbox$", &[Run(LOWER, 16, 16), Literal("$"), Run(HEX, 32, 32)]),
    distinct("square-token", "sq0atp-", &[Run(DASH, 22, 22)]),
    distinct("square-secret", "sq0csp-", &[Run(DASH, 43, 43)]),
    distinct("square-token", "EAAA", &[Run(DASH, 56, LONG)]),
    distinct("razorpay-key", "rzp_live_", &[Run(ALNUM, 14, LONG)]),
    distinct("razorpay-key", "rzp_test_", &[Run(ALNUM, 14, LONG)]),
    distinct("flutterwave-key", "FLWSECK", &[Run(DASH, 20, LONG)]),
    distinct("flutterwave-key", "FLWPUBK", &[Run(DASH, 20, LONG)]),
    random("gocardless-token", "live_", &[Run(DASH, 40, LONG)]),
    distinct("plaid-token", "access-sandbox-", &[Run(HEX_DASH, 36, 36)]),
    distinct("plaid-token", "access-development-", &[Run(HEX_DASH, 36, 36)]),
    distinct("plaid-token", "access-production-", &[Run(HEX_DASH, 36, 36)]),
    distinct("adyen-key", "AQE", &[Run(TOKEN68, 80, LONG)]),
    distinct("shippo-token", "shippo_live_", &[Run(HEX, 40, 40)]),
    distinct("shippo-token", "shippo_test_", &[Run(HEX, 40, 40)]),
    distinct("easypost-key", "EZAK", &[Run(ALNUM, 54, 54)]),
    distinct("easypost-key", "EZTK", &[Run(ALNUM, 54, 54)]),
    distinct("duffel-token", "duffel_live_", &[Run(DASH, 40, LONG)]),
    distinct("duffel-token", "duffel_test_", &[Run(DASH, 40, LONG)]),
    distinct("polar-token", "polar_oat_", &[Run(WORD, 30, LONG)]),
    distinct("polar-token", "polar_pat_", &[Run(WORD, 30, LONG)]),
    distinct("persona-key", "persona_production_", &[Run(DASH, 20, LONG)]),
    distinct("persona-key", "persona_sandbox_", &[Run(DASH, 20, LONG)]),
    distinct("onfido-token", "api_live.", &[Run(DOTTED, 30, LONG)]),
    // apps
    distinct("shopify-token", "shpat_", &[Run(ANY_HEX, 30, LONG)]),
    distinct("shopify-token", "shpca_", &[Run(ANY_HEX, 30, LONG)]),
    distinct("shopify-token", "shppa_", &[Run(ANY_HEX, 30, LONG)]),
    distinct("shopify-token", "shpss_", &[Run(ANY_HEX, 30, LONG)]),
    distinct("shopify-token", "shptka_", &[Run(ANY_HEX, 30, LONG)]),
    distinct("shopify-token", "atkn_", &[Run(HEX, 60, LONG)]),
    distinct("notion-token", "ntn_", &[Run(ALNUM, 40, LONG)]),
    distinct("notion-token", "secret_", &[Run(ALNUM, 40, 50)]),
    distinct("linear-key", "lin_api_", &[Run(ALNUM, 30, LONG)]),
    distinct("linear-token", "lin_oauth_", &[Run(ALNUM, 30, LONG)]),
    distinct("airtable-token", "pat", &[Run(ALNUM, 14, 14), Literal("."), Run(HEX, 64, 64)]),
    distinct("asana-token", "1/", &[Run(DIGIT, 10, 20), Literal(":"), Run(HEX, 32, 32)]),
    distinct("asana-token", "2/", &[Run(DIGIT, 10, 20), Literal("/"), Run(DIGIT, 10, 20), Literal(":"), Run(HEX, 32, 32)]),
    distinct("figma-token", "figd_", &[Run(DASH, 30, LONG)]),
    distinct("figma-token", "figu_", &[Run(DASH, 30, LONG)]),
    distinct("figma-token", "figo_", &[Run(DASH, 30, LONG)]),
    distinct("postman-key", "PMAK-", &[Run(HEX, 24, 24), Literal("-"), Run(HEX, 34, 34)]),
    distinct("contentful-token", "CFPAT-", &[Run(DASH, 40, LONG)]),
    distinct("typeform-token", "tfp_", &[Run(DOTTED, 40, LONG)]),
    distinct("dropbox-token", "sl.", &[Run(DASH, 60, LONG)]),
    distinct("dropbox-token", "sl.u.", &[Run(DASH, 60, LONG)]),
    distinct("hubspot-token", "pat-na1-", &[Run(HEX_DASH, 36, 36)]),
    distinct("hubspot-token", "pat-na2-", &[Run(HEX_DASH, 36, 36)]),
    distinct("hubspot-token", "pat-eu1-", &[Run(HEX_DASH, 36, 36)]),
    distinct("intercom-token", "dG9rO", &[Run(BASE64, 40, LONG)]),
    distinct("mapbox-token", "sk.eyJ", &[Run(DOTTED, 40, LONG)]),
    distinct("mapbox-token", "pk.eyJ", &[Run(DOTTED, 40, LONG)]),
    distinct("mapbox-token", "tk.eyJ", &[Run(DOTTED, 40, LONG)]),
    distinct("adafruit-key", "aio_", &[Run(ALNUM, 28, 28)]),
    distinct("adobe-secret", "p8e-", &[Run(ANY_HEX, 32, 32)]),
    distinct("adobe-token", "s8e-", &[Run(ANY_HEX, 32, 32)]),
    distinct("facebook-token", "EAAC", &[Run(DASH, 60, LONG)]),
    distinct("facebook-token", "EAAB", &[Run(DASH, 60, LONG)]),
    distinct("facebook-token", "EAAG", &[Run(DASH, 60, LONG)]),
    distinct("facebook-token", "EAAM", &[Run(DASH, 60, LONG)]),
    distinct("facebook-token", "EAAJ", &[Run(DASH, 60, LONG)]),
    distinct("instagram-token", "IGQV", &[Run(DASH, 60, LONG)]),
    distinct("instagram-token", "IGAA", &[Run(DASH, 60, LONG)]),
    distinct("twitter-bearer", "AAAAAAAAAAAAAAAAAAAAA", &[Run(PERCENTED, 40, LONG)]),
    distinct("linkedin-secret", "WPL_AP1.", &[Run(DOTTED, 10, LONG)]),
    distinct("pinterest-token", "pina_", &[Run(ALNUM, 40, LONG)]),
    distinct("twitch-token", "oauth:", &[Run(LOWER, 30, 30)]),
    distinct("readme-key", "rdme_xn8s9h", &[Run(HEX, 60, LONG)]),
    distinct("frameio-token", "fio-u-", &[Run(DASH, 60, 60)]),
    random("beamer-token", "b_", &[Run(DASH, 44, 44)]),
    distinct("clickup-token", "pk_", &[Run(DIGIT, 6, 10), Literal("_"), Run(UPPER, 28, 40)]),
    distinct("trello-token", "ATTA", &[Run(HEX, 60, LONG)]),
    distinct("apify-token", "apify_api_", &[Run(ALNUM, 30, LONG)]),
    distinct("scrapfly-key", "scp-live-", &[Run(HEX, 32, 32)]),
    distinct("zuplo-key", "zpka_", &[Run(WORD, 20, LONG)]),
    distinct("stytch-secret", "secret-live-", &[Run(DASH, 30, LONG)]),
    distinct("stytch-secret", "secret-test-", &[Run(DASH, 30, LONG)]),
    random("statsig-secret", "secret-", &[Run(ALNUM, 40, LONG)]),
    distinct("posthog-key", "phx_", &[Run(ALNUM, 30, LONG)]),
    distinct("posthog-key", "phc_", &[Run(ALNUM, 30, LONG)]),
    distinct("inngest-key", "signkey-prod-", &[Run(HEX, 60, LONG)]),
    distinct("inngest-key", "signkey-test-", &[Run(HEX, 60, LONG)]),
    distinct("trigger-dev-key", "tr_prod_", &[Run(ALNUM, 20, LONG)]),
    distinct("trigger-dev-key", "tr_dev_", &[Run(ALNUM, 20, LONG)]),
    distinct("trigger-dev-key", "tr_pat_", &[Run(ALNUM, 20, LONG)]),
    distinct("axiom-token", "xaat-", &[Run(HEX_DASH, 36, 36)]),
    distinct("axiom-token", "xapt-", &[Run(HEX_DASH, 36, 36)]),
    distinct("checkly-key", "cu_", &[Run(HEX, 32, 32)]),
    distinct("val-town-token", "vtwn_", &[Run(ALNUM, 20, LONG)]),
    distinct("settlemint-token", "sm_aat_", &[Run(ALNUM, 16, 16)]),
    distinct("settlemint-token", "sm_pat_", &[Run(ALNUM, 16, 16)]),
    distinct("settlemint-token", "sm_sat_", &[Run(ALNUM, 16, 16)]),
    distinct("ionic-token", "ion_", &[Run(ALNUM, 42, 42)]),
    distinct("defined-networking-key", "dnkey-", &[Run(LOWER, 26, 26), Literal("-"), Run(LOWER, 52, 52)]),
    distinct("authress-key", "sc_", &[Run(ALNUM, 5, 30), Literal("."), Run(ALNUM, 4, 6), Literal(".acc"), Run(DOTTED, 40, LONG)]),
    distinct("authress-key", "ext_", &[Run(ALNUM, 5, 30), Literal("."), Run(ALNUM, 4, 6), Literal(".acc"), Run(DOTTED, 40, LONG)]),
    distinct("scalingo-token", "tk-us-", &[Run(DASH, 48, 48)]),
    distinct("intra42-secret", "s-s4t2ud-", &[Run(HEX, 64, 64)]),
    distinct("stackhawk-key", "hawk.", &[Run(DASH, 20, 20), Literal("."), Run(DASH, 20, 20)]),
    distinct("convex-key", "prod:", &[Run(LOWER, 4, 40), Literal("|"), Run(TOKEN68, 30, LONG)]),
    distinct("deno-token", "ddp_", &[Run(ALNUM, 36, 36)]),
    distinct("deno-token", "ddo_", &[Run(ALNUM, 36, 36)]),
    distinct("doppler-token", "dp.pt.", &[Run(ALNUM, 40, LONG)]),
    distinct("doppler-token", "dp.st.", &[Run(DOTTED, 40, LONG)]),
    distinct("doppler-token", "dp.ct.", &[Run(ALNUM, 40, LONG)]),
    distinct("doppler-token", "dp.sa.", &[Run(ALNUM, 40, LONG)]),
    distinct("doppler-token", "dp.scim.", &[Run(ALNUM, 40, LONG)]),
    distinct("doppler-token", "dp.audit.", &[Run(ALNUM, 40, LONG)]),
    random("infisical-token", "st.", &[Run(HEX, 24, 60), Literal("."), Run(HEX, 24, 60)]),
    distinct("vault-token", "hvs.", &[Run(DASH, 20, LONG)]),
    distinct("vault-token", "hvb.", &[Run(DASH, 20, LONG)]),
    distinct("vault-token", "hvr.", &[Run(DASH, 20, LONG)]),
    random("vault-token", "s.", &[Run(ALNUM, 24, 24)]),
    distinct("onepassword-token", "ops_eyJ", &[Run(TOKEN68, 40, LONG)]),
    distinct("onepassword-key", "A3-", &[Run(UPPER, 6, 6), Literal("-"), Run(UPPER, 6, 6), Literal("-"), Run(UPPER, 5, 5), Literal("-"), Run(UPPER, 5, 5), Literal("-"), Run(UPPER, 5, 5), Literal("-"), Run(UPPER, 5, 5)]),
    distinct("bitwarden-token", "0.", &[Run(HEX_DASH, 36, 36), Literal("."), Run(ALNUM, 30, 30), Literal(":"), Run(TOKEN68, 24, 24)]),
    distinct("age-secret-key", "AGE-SECRET-KEY-1", &[Run(UPPER, 50, LONG)]),
    distinct("openshift-token", "sha256~", &[Run(DASH, 43, 43)]),
    distinct("kubernetes-bootstrap-token", "K10", &[Run(HEX, 64, 64), Literal("::"), Run(TOKEN68, 10, LONG)]),
    random("okta-token", "00", &[Run(DASH, 40, 40)]),
    // telemetry
    distinct("sentry-token", "sntrys_", &[Run(TOKEN68, 40, LONG)]),
    distinct("sentry-token", "sntryu_", &[Run(HEX, 60, LONG)]),
    distinct("sentry-token", "sntrya_", &[Run(HEX, 60, LONG)]),
    distinct("new-relic-key", "NRAK-", &[Run(UPPER, 20, LONG)]),
    distinct("new-relic-key", "NRJS-", &[Run(HEX, 19, 19)]),
    distinct("new-relic-key", "NRII-", &[Run(DASH, 32, 32)]),
    distinct("new-relic-key", "NRIQ-", &[Run(DASH, 30, LONG)]),
    distinct("new-relic-key", "NRRA-", &[Run(HEX, 40, LONG)]),
    distinct("new-relic-key", "NRSP-", &[Run(DASH, 20, LONG)]),
    distinct("grafana-token", "glc_", &[Run(TOKEN68, 32, LONG)]),
    distinct("grafana-token", "glsa_", &[Run(WORD, 40, LONG)]),
    distinct("grafana-key", "eyJrIjoi", &[Run(BASE64, 50, LONG)]),
    distinct("datadog-key", "ddpat_", &[Run(DASH, 30, LONG)]),
    distinct("honeycomb-key", "hcaik_", &[Run(LOWER, 50, LONG)]),
    distinct("honeycomb-key", "hcalk_", &[Run(LOWER, 50, LONG)]),
    distinct("honeycomb-key", "hcamk_", &[Run(LOWER, 50, LONG)]),
    distinct("honeycomb-key", "hcxik_", &[Run(LOWER, 50, LONG)]),
    distinct("dynatrace-token", "dt0c01.", &[Run(UPPER, 24, 24), Literal("."), Run(UPPER, 64, 64)]),
    distinct("dynatrace-token", "dt0s01.", &[Run(UPPER, 8, LONG), Literal("."), Run(UPPER, 64, 64)]),
    distinct("dynatrace-token", "dt0s16.", &[Run(UPPER, 8, LONG), Literal("."), Run(UPPER, 64, 64)]),
    distinct("elastic-key", "essu_", &[Run(TOKEN68, 40, LONG)]),
    distinct("logfire-token", "pylf_v1_", &[Run(WORD, 30, LONG)]),
    distinct("logfire-token", "pylf_v2_", &[Run(WORD, 30, LONG)]),
    distinct("langwatch-key", "sk-lw-", &[Run(DASH, 20, LONG)]),
    distinct("braintrust-key", "bt-st-", &[Run(ALNUM, 30, LONG)]),
    distinct("arize-key", "ak-", &[Run(HEX_DASH, 36, 36)]),
    distinct("flagsmith-key", "ser.", &[Run(ALNUM, 20, LONG)]),
    distinct("unleash-token", "default:production.", &[Run(HEX, 50, LONG)]),
    distinct("unleash-token", "default:development.", &[Run(HEX, 50, LONG)]),
    distinct("unleash-token", "*:production.", &[Run(HEX, 50, LONG)]),
    distinct("unleash-token", "*:development.", &[Run(HEX, 50, LONG)]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::trace::sanitize::finding::{MAX_NAME_BYTES, is_name_byte};

    #[test]
    fn there_are_many_kinds_and_their_names_fit_into_markers() {
        let kinds: BTreeSet<_> = SERVICES.iter().map(|service| service.kind).collect();
        assert!(kinds.len() >= 130, "{}", kinds.len());
        for kind in kinds {
            assert!(kind.len() <= MAX_NAME_BYTES && kind.bytes().all(is_name_byte), "{kind}");
        }
        for service in SERVICES {
            assert!(service.prefix.len() >= 2 && service.prefix.is_ascii(), "{}", service.prefix);
        }
    }

    #[test]
    fn a_token_has_its_length_and_its_boundary() {
        let end = |prefix: &str, text: &str, start| {
            SERVICES
                .iter()
                .filter(|service| service.prefix == prefix)
                .find_map(|service| service.end(text.as_bytes(), start))
        };
        let body = "Q7wL2pZ9xKd4MvB8nTy3RfG6hJ5sAc1eUi0o";
        assert_eq!(end("ghp_", &format!("ghp_{body}"), 0), Some(40));
        assert_eq!(end("ghp_", &format!("ghp_{body}."), 0), Some(40));
        assert_eq!(end("ghp_", &format!("xghp_{body}"), 1), None, "in the middle of a word");
        assert_eq!(end("ghp_", "ghp_short", 0), None);
        assert_eq!(end("ghp_", &format!("ghp_{}", "x".repeat(36)), 0), None, "filler");
        assert_eq!(end("AKIA", "AKIAQ7WL2PZ9XKD4MVB8", 0), Some(20));
        assert_eq!(end("AKIA", "AKIAQ7WL2PZ9XKD4MVB8N", 0), None, "too long for one");
        assert_eq!(end("sk-", "sk-learn-and-other-libraries", 0), None);
    }
}
