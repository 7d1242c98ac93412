//! Secrets in the texts of services, and texts that only look like secrets.

use proptest::prelude::*;

use crate::testing::work::{is_square, work};
use crate::text::sanitize::{clean, log_lines, never_show, without_secrets};

/// Generates the characters of a token, always the same for a seed. Tokens are not literals, so that no scanner mistakes this file for a
/// leak.
fn random(seed: u64, length: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (length as u64) << 32;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed >> 33) % letters.len() as u64).unwrap()
    };
    (0..length).map(|_| letters[next()]).collect()
}

const BASE62: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const HEX: &str = "0123456789abcdef";
const DIGITS: &str = "0123456789";

fn uuid(seed: u64) -> String {
    [8, 4, 4, 4, 12].map(|length| random(seed + length as u64, length, HEX)).join("-")
}

/// A secret in a sentence.
struct Case {
    secret: String,
    sentence: String,
    /// Whether the secret is hidden in every text, not only in those of services.
    anywhere: bool,
}

struct Cases {
    seed: u64,
    all: Vec<Case>,
}

impl Cases {
    fn add(&mut self, anywhere: bool, secret: &str, sentence: &str) {
        let sentence = sentence.replace("{}", secret);
        self.all.push(Case { secret: secret.to_owned(), sentence, anywhere });
    }

    /// Generates different characters on each call.
    fn random(&mut self, length: usize, alphabet: &str) -> String {
        self.seed += 1;
        random(self.seed, length, alphabet)
    }

    fn uuid(&mut self) -> String {
        self.seed += 100;
        uuid(self.seed)
    }

    /// A password in the style that people choose.
    fn password(&mut self) -> String {
        format!("hunter2-Tr0ub4dor{}", self.random(3, DIGITS))
    }
}

/// Returns secrets with sentences that contain them. The first 160 are tokens that are recognized by their prefixes.
pub(crate) fn secrets() -> Vec<(String, String)> {
    cases(1).into_iter().map(|case| (case.secret, case.sentence)).collect()
}

fn cases(seed: u64) -> Vec<Case> {
    let mut cases = Cases { seed: seed * 100_000, all: Vec::new() };
    tokens(&mut cases);
    named(&mut cases);
    addresses(&mut cases);
    by_length(&mut cases);
    let known = cases.all.len();
    assert_eq!(known, KNOWN);
    webhooks(&mut cases);
    signed_addresses(&mut cases);
    after_a_word(&mut cases);
    with_invisible_characters(&mut cases);
    escaped(&mut cases);
    of_other_forms(&mut cases);
    assigned(&mut cases);
    in_columns(&mut cases);
    of_commands(&mut cases);
    over_lines(&mut cases);
    of_variables(&mut cases);
    cases.all
}

/// The number of cases of the first four kinds.
const KNOWN: usize = 201;

/// Tokens with known prefixes.
fn tokens(cases: &mut Cases) {
    for (prefix, length, alphabet) in [
        ("ghp_", 36, BASE62),
        ("gho_", 36, BASE62),
        ("ghu_", 36, BASE62),
        ("ghs_", 36, BASE62),
        ("ghr_", 36, BASE62),
        ("ghp_", 16, BASE62),
        ("github_pat_", 82, BASE62),
        ("glpat-", 20, BASE62),
        ("glrt-", 20, BASE62),
        ("gldt-", 20, BASE62),
        ("glptt-", 40, HEX),
        ("xoxb-", 50, BASE62),
        ("xoxp-", 70, BASE62),
        ("xoxa-", 40, BASE62),
        ("xoxr-", 40, BASE62),
        ("xoxs-", 40, BASE62),
        ("xapp-1-", 60, BASE62),
        ("sk_live_", 24, BASE62),
        ("rk_live_", 24, BASE62),
        ("hvs.", 24, BASE62),
        ("hvb.", 90, BASE62),
        ("s.", 24, BASE62),
        ("AKIA", 16, UPPER),
        ("ASIA", 16, UPPER),
        ("AIza", 35, BASE62),
        ("ya29.", 60, BASE62),
        ("npm_", 36, BASE62),
        ("pypi-", 80, BASE62),
        ("dop_v1_", 64, HEX),
        ("shpat_", 32, HEX),
        ("SG.", 66, BASE62),
        ("dckr_pat_", 27, BASE62),
        ("hf_", 34, BASE62),
        ("glsa_", 32, BASE62),
        ("tskey-auth-", 30, BASE62),
        ("sk-ant-", 40, BASE62),
        ("sntrys_", 40, BASE62),
        ("AGE-SECRET-KEY-1", 58, UPPER),
        ("dapi", 32, HEX),
        ("sk-", 48, BASE62),
    ] {
        let token = format!("{prefix}{}", cases.random(length, alphabet));
        for sentence in [
            "failed to fetch https://h.example/a: 401 for {}",
            "config: unknown value '{}' at line 3",
            "GET /v1?key={}&x=1 failed",
            "[{}] rejected.",
        ] {
            cases.add(true, &token, sentence);
        }
    }
    let jwt = format!("eyJ{}.eyJ{}.{}", cases.random(33, BASE62), cases.random(60, BASE62), cases.random(43, URL64));
    cases.add(true, &jwt, "webhook refused {}: expired");
    let bootstrap = format!("{}.{}", cases.random(6, LOWER), cases.random(16, LOWER));
    cases.add(true, &bootstrap, "kubeadm join 10.0.0.1:6443 with {} failed");
    cases.add(true, &bootstrap, "trustd: invalid join value {}");
}

/// Values that follow names.
fn named(cases: &mut Cases) {
    for sentence in [
        "login failed: pass={}",
        "login failed: password={}, trying again",
        "env PGPASSWORD={} psql: exit 2",
        "MYSQL_PWD={} refused",
        "invalid token={} in request",
        "client_secret={}&grant_type=x",
        "apikey={} is not known",
        "api_key=\"{}\" is not known",
        "X-Api-Key: {}",
        "session={}; path=/",
        "AccountName=a;AccountKey={};EndpointSuffix=x",
        "AWS_SECRET_ACCESS_KEY={}",
        "Authorization: Basic {}",
        "authorization=Bearer {}",
        r#"{"auths":{"r.example":{"username":"u","password":"{}"}}}"#,
        "retrying with --password {}",
        "curl -u admin:{} https://h.example",
    ] {
        cases.add(false, "hunter2-Tr0ub4dor", sentence);
    }
}

/// Passwords in addresses.
fn addresses(cases: &mut Cases) {
    for sentence in [
        "dial postgres://app:{}@db.example:5432/app: refused",
        "mongodb+srv://app:{}@c.example/x?retryWrites=true failed",
        "redis://:{}@10.0.0.1:6379 timed out",
        "amqp://u:{}@mq:5672 closed",
        "mysql: app:{}@tcp(db.example:3306)/app: bad connection",
        "proxy http://u:{}@10.0.0.1:3128/ refused",
        "git clone https://x-access-token:{}@github.example/a/b failed",
    ] {
        cases.add(true, "hunter2_Tr0ub4dor", sentence);
        cases.add(true, "hun/ter2#Tr0ub", &sentence.replace("mysql: app:{}@tcp", "mysql://app:{}@tcp"));
    }
}

/// Keys that are recognized by their length, such as those of AWS.
fn by_length(cases: &mut Cases) {
    let aws = cases.random(40, BASE62);
    cases.add(false, &aws, "access denied with {}");
    let aws = format!("{}/{}+{}", cases.random(12, BASE62), cases.random(13, BASE62), cases.random(13, BASE62));
    cases.add(false, &aws, "signed with {}: denied");
    let wireguard = format!("{}=", cases.random(43, BASE62));
    cases.add(false, &wireguard, "peer {} is unknown");
    let pem = format!("LS0tLS1{}", cases.random(200, BASE62));
    cases.add(true, &pem, "parse {}: not base64");
    let key = cases.random(64, BASE62);
    cases.add(true, &key, "-----BEGIN EC PRIVATE KEY----- {} -----END EC PRIVATE KEY-----");
    cases.add(true, &key, "key: -----BEGIN RSA PRIVATE KEY-----\\n{}\\n");
    let bearer = cases.random(30, BASE62);
    cases.add(true, &bearer, "Bearer {} was refused");
}

/// Webhooks, whose address is sufficient to post to them because the key is in the path.
fn webhooks(cases: &mut Cases) {
    let (team, hook) = (cases.random(10, UPPER), cases.random(10, UPPER));
    let (id, uuids) = (cases.random(18, "123456789"), [cases.uuid(), cases.uuid(), cases.uuid()]);
    let [tenant, group, user] = &uuids;
    let connector = cases.random(32, HEX);
    let teams = format!("{tenant}@{group}/IncomingWebhook/{connector}/{user}");
    for (length, alphabet, address) in [
        (24, BASE62, format!("https://hooks.slack.com/services/T{team}/B{hook}/{{}}")),
        (24, BASE62, format!("https://hooks.slack.com/workflows/T{team}/A{hook}/{id}/{{}}")),
        (32, HEX, format!("https://hooks.slack.com/triggers/E{team}/{id}/{{}}")),
        (68, URL64, format!("https://discord.com/api/webhooks/{id}/{{}}")),
        (68, URL64, format!("https://discordapp.com/api/webhooks/{id}/{{}}?wait=true")),
        (68, URL64, format!("https://canary.discord.com/api/v10/webhooks/{id}/{{}}/slack")),
        (43, URL64, format!("https://acme.webhook.office.com/webhookb2/{teams}/V2{{}}1")),
        (32, HEX, format!("https://outlook.office.com/webhook/{tenant}@{group}/IncomingWebhook/{{}}/{user}")),
        (35, URL64, format!("https://api.telegram.org/bot{}:AA{{}}/sendMessage", &id[..9])),
        (35, URL64, format!("https://api.telegram.org/file/bot{}:AA{{}}/photos/file_0.jpg", &id[..10])),
        (26, LOWER, "https://chat.example.com/hooks/{}".to_owned()),
        (44, BASE62, format!("https://rocket.example.com/hooks/{}/{{}}", cases.random(17, BASE62))),
        (32, HEX, "https://events.pagerduty.com/integration/{}/enqueue".to_owned()),
        (22, URL64, "https://maker.ifttt.com/trigger/etcd_down/with/key/{}".to_owned()),
        (32, LOWER, "https://kuma.example.com/api/push/{}?status=down&msg=x".to_owned()),
        (43, URL64, "https://home.example.com/api/webhook/{}".to_owned()),
        (32, HEX, "https://hooks.zapier.com/hooks/catch/123456/{}/".to_owned()),
        (36, LOWER, "https://alerts.example.com/v1/alerts/{}/send".to_owned()),
        (44, BASE62, "https://in.logs.example.com/receiver/v1/http/{}".to_owned()),
    ] {
        let key = cases.random(length, alphabet);
        cases.add(true, &key, &format!("Post \"{address}\": dial tcp 10.0.0.1:443: i/o timeout"));
        cases.add(true, &key, &format!("notify via {address}: unexpected status code 404"));
    }
    for address in [
        "https://hc-ping.com/{}/fail",
        "https://hc.example.com/ping/{}",
        "https://open.feishu.cn/open-apis/bot/v2/hook/{}",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}",
        "https://flow.example.com/webhook/{}",
    ] {
        let key = cases.uuid();
        cases.add(true, &key, &format!("Post \"{address}\": EOF"));
    }
    let key = cases.random(26, LOWER);
    cases.add(true, &key, "\"POST /hooks/{} HTTP/1.1\" 404");
    let key = cases.random(24, BASE62);
    cases.add(true, &key, &format!("webhook https:\\/\\/hooks.slack.com\\/services\\/T{team}\\/B{hook}\\/{{}}"));
    let key = cases.random(24, BASE62);
    cases.add(true, &key, &format!("next=https%3A%2F%2Fhooks.slack.com%2Fservices%2FT{team}%2FB{hook}%2F{{}}&x=1"));
}

/// Keys in the query or in the user part of an address.
fn signed_addresses(cases: &mut Cases) {
    for (length, alphabet, address) in [
        (
            43,
            BASE62,
            "https://prod-01.westus.logic.azure.com/workflows/{w}/triggers/manual/paths/invoke?api-version=2016-10-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={}",
        ),
        (
            43,
            BASE62,
            "https://acme.blob.core.windows.net/backup/etcd.db?sv=2023-11-03&sr=b&se=2026-11-23T12%3A00%3A00Z&sp=r&sig={}%3D",
        ),
        (
            64,
            HEX,
            "https://b.s3.eu-central-1.amazonaws.com/etcd.db?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20261123T120000Z&X-Amz-Expires=900&X-Amz-Signature={}",
        ),
        (
            16,
            UPPER,
            "https://b.s3.amazonaws.com/etcd.db?X-Amz-Credential=AKIA{}%2F20261123%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=x",
        ),
        (120, BASE64, "https://b.s3.amazonaws.com/etcd.db?X-Amz-Security-Token={}&X-Amz-Date=x"),
        (512, HEX, "https://storage.googleapis.com/b/etcd.db?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature={}"),
        (
            86,
            BASE62,
            "https://storage.googleapis.com/b/etcd.db?GoogleAccessId=x%40y.iam.gserviceaccount.com&Expires=1795435200&Signature={}%3D%3D",
        ),
        (86, URL64, "https://d111.cloudfront.net/layer?Expires=1795435200&Key-Pair-Id=K2JCJMDEHXQW5F&Signature={}__"),
        (43, URL64, "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=x&token={}%3D"),
        (15, BASE62, "https://gotify.example.com/message?token={}"),
        (32, BASE62, "https://ntfy.example.com/etcd?auth={}"),
        (64, HEX, "https://oapi.dingtalk.com/robot/send?access_token={}"),
        (32, HEX, "https://api.datadoghq.example/api/v1/validate?api_key={}"),
        (32, HEX, "https://api.example.com/v2/check?apiKey={}"),
        (32, HEX, "https://api.example.com/v2/check?key={}"),
        (40, BASE62, "https://id.example.com/callback?code={}&state=x"),
        (32, HEX, "https://{}@o1.ingest.sentry.io/1"),
        (32, HEX, "https://{}@o4505.ingest.de.sentry.io/4505"),
        (32, HEX, "https://0123456789abcdef0123456789abcdef:{}@sentry.example.com/2"),
        (40, BASE62, "https:\\/\\/ci:{}@git.example.com\\/a\\/b.git"),
        (24, BASE62, "https%3A%2F%2Fci%3A{}%40git.example.com%2Fa"),
    ] {
        let key = cases.random(length, alphabet);
        let address = address.replace("{w}", &cases.random(32, HEX));
        cases.add(true, &key, &format!("Get \"{address}\": context deadline exceeded"));
    }
}

/// Random values after a word that names them.
fn after_a_word(cases: &mut Cases) {
    for (length, alphabet) in [(32, HEX), (40, BASE62), (44, BASE64)] {
        for sentence in [
            "invalid key {}",
            "invalid key: {}",
            "the key is {} here",
            "key = {}",
            "key '{}' was revoked",
            "key \"{}\" was revoked",
            "API key {} is not known",
            "token {} has expired",
            "the access token is {}",
            "session: {}",
            "password {} was not accepted",
        ] {
            let key = cases.random(length, alphabet);
            cases.add(true, &key, sentence);
        }
    }
}

fn with_invisible_characters(cases: &mut Cases) {
    for invisible in ['\u{200b}', '\u{ad}', '\u{2060}', '\u{feff}', '\u{e0020}', '\u{1d173}', '\u{2800}', '\u{0}'] {
        let password = cases.password();
        cases.add(true, &password, &format!("login failed: pass{invisible}word={{}}"));
        let token = cases.random(36, BASE62);
        cases.add(true, &token, &format!("push failed for gh{invisible}p_{{}}"));
        let token = cases.random(20, BASE62);
        cases.add(true, &token, &format!("push failed for glpat{invisible}-{{}}"));
    }
    let (head, tail) = (cases.random(18, BASE62), cases.random(18, BASE62));
    cases.add(true, &tail, &format!("push failed for ghp_{head}\u{200b}{{}}"));
    let key = cases.random(44, URL64);
    cases.add(true, &key, "https://chat.example.com/ho\u{200b}oks/{}");
    let password = cases.password();
    cases.add(false, &password, "pass\u{200b}word: {}");
    cases.add(false, &password, "-\u{200b}-password {}");
    cases.add(false, &password, "USER=app\0PASSWORD={}\0HOME=/");
    cases.add(false, &password, "user\0app\0password\0{}\0database\0app");
    cases.add(true, &password, "ｐａｓｓｗｏｒｄ＝{}");
    cases.add(false, &password, "pass\\u200bword: {}");
}

/// Secrets within JSON, YAML, addresses and HTML.
fn escaped(cases: &mut Cases) {
    for sentence in [
        r#"{"password":"{}"}"#,
        r#"{"user":"app", "password": "{}"}"#,
        r#"body="{\"password\":\"{}\"}""#,
        r#"body="{\\\"password\\\":\\\"{}\\\"}""#,
        r"\u007b\u0022password\u0022\u003a\u0022{}\u0022\u007d",
        r"password\u003d{}",
        r"password\x3d{}",
        "password%3D{}%26user%3Dapp",
        "password%253D{}",
        "%7B%22password%22%3A%22{}%22%7D",
        "&quot;password&quot;:&quot;{}&quot;",
        "&#34;password&#34;:&#34;{}&#34;",
        "{'user': 'app', 'password': '{}'}",
        r#"{"creds":"{}"}"#,
        r#"{"pin":"{}"}"#,
        r#"{"auth":"{}"}"#,
    ] {
        let password = cases.password();
        cases.add(true, &password, sentence);
    }
    let body = cases.random(96, BASE64);
    for sentence in [
        r"-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        r"-----BEGIN OPENSSH PRIVATE KEY-----\\n{}\\n-----END OPENSSH PRIVATE KEY-----",
        r#"{"key":"-----BEGIN EC PRIVATE KEY-----\r\n{}\r\n"#,
        "-----BEGIN%20PRIVATE%20KEY-----%0A{}%0A-----END%20PRIVATE%20KEY-----",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ---- {} ---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    ] {
        cases.add(true, &body, sentence);
    }
    let password = cases.password();
    cases.add(false, &password, r"stringData:\n  password: {}\n");
    cases.add(false, &password, r"stringData:\n  password: |\n    {}\n");
    cases.add(false, &password, r#"msg="user\tapp\tpassword\t{}""#);
}

/// Tokens and headers with a form of their own.
fn of_other_forms(cases: &mut Cases) {
    let bootstrap = format!("{}.{}", cases.random(6, LOWER), cases.random(16, LOWER));
    for sentence in
        ["kubeadm join 10.0.0.1:6443 --token {} --discovery-token-unsafe", "machine.token: {}", "token id:{}"]
    {
        cases.add(true, &bootstrap, sentence);
    }
    let cluster = cases.random(64, HEX);
    let server = cases.random(32, HEX);
    cases.add(true, &server, &format!("k3s: K10{cluster}::server:{{}} is not valid"));
    let (id, aws) = (cases.random(16, UPPER), cases.random(40, BASE64));
    cases.add(true, &aws, &format!("credentials AKIA{id}:{{}} were refused"));
    let telegram = cases.random(33, URL64);
    cases.add(true, &telegram, "bot 123456789:AA{} is blocked");
    let ntfy = cases.random(29, LOWER);
    cases.add(true, &ntfy, "publish with tk_{} failed");
    for (prefix, length, alphabet) in [
        ("sk-or-v1-", 64, HEX),
        ("gsk_", 52, BASE62),
        ("xai-", 80, BASE62),
        ("nvapi-", 64, URL64),
        ("sbp_", 40, HEX),
        ("dt0c01.", 80, UPPER),
        ("FlyV1 fm2_", 80, BASE62),
        ("xoxc-", 60, BASE62),
        ("LTAI", 20, BASE62),
        ("tfp_", 40, BASE62),
    ] {
        let token = format!("{prefix}{}", cases.random(length, alphabet));
        cases.add(true, &token, "error: [{}] rejected.");
    }
    let (cookie, basic) = (cases.random(20, BASE62), cases.random(12, BASE62));
    for sentence in ["Cookie: sid={}", "Cookie: a=b; sid={}; c=d", "< Set-Cookie: sid={}; Path=/; HttpOnly"] {
        cases.add(true, &cookie, sentence);
    }
    for sentence in [
        "Authorization: Basic {}=",
        "Proxy-Authorization: Basic {}=",
        "Authorization: Token {}",
        "authorization=ApiKey {}",
    ] {
        cases.add(true, &basic, sentence);
    }
    let long = cases.random(900, BASE64);
    for sentence in ["token={}", "apikey=\"{}\"", "key: {}", "https://h.example/v1?token={}"] {
        cases.add(true, &long, sentence);
    }
    let wireguard = cases.random(43, BASE64);
    for sentence in ["PrivateKey = {}=", "PresharedKey = {}=", "private key: {}=", "privateKey: {}="] {
        cases.add(true, &wireguard, sentence);
    }
    cases.add(false, &wireguard, "wg: peer {}= has no endpoint");
    let docker = format!("{}==", cases.random(30, BASE62));
    cases.add(true, &docker, r#"{"auths":{"https://index.docker.io/v1/":{"auth":"{}"}}}"#);
    cases.add(true, &docker, r#"{"identitytoken": "{}"}"#);
    let pem = format!("LS0tLS1{}", cases.random(120, BASE62));
    for sentence in ["ca: {}", "crt: {}", "key: {}", "client-key-data: {}", "yaml: cannot decode {}"] {
        cases.add(true, &pem, sentence);
    }
    let der = cases.random(88, BASE64);
    for sentence in [
        "client-key-data: {}",
        "\"client-key-data\":\"{}\"",
        "aescbcEncryptionSecret: {}",
        "secretboxEncryptionSecret: {}",
    ] {
        cases.add(false, &der, sentence);
    }
    let aws = cases.random(40, BASE64);
    for sentence in
        ["aws_secret_access_key = {}", "secretAccessKey: {}", "SecretAccessKey={}", "denied with {} in eu-central-1"]
    {
        cases.add(!sentence.starts_with("denied"), &aws, sentence);
    }
}

/// Names that are short or do not contain "password", and signs other than `=`.
fn assigned(cases: &mut Cases) {
    for name in [
        "creds",
        "psk",
        "pin",
        "otp",
        "auth",
        "dsn",
        "pwd",
        "passwd",
        "passcode",
        "db_pass",
        "smtp-auth",
        "userPin",
        "_auth",
    ] {
        let password = cases.password();
        cases.add(true, &password, &format!("connect to db: {name}={{}}"));
        let password = cases.password();
        cases.add(true, &password, &format!("connect to db: {name}=\"{{}}\", again"));
    }
    for sentence in [
        "creds: {}",
        "psk: {}",
        "creds : '{}'",
        "connection string: Server=db;User=app;Pwd={};",
        "connection string is {}",
        "ConnectionString=\"{}\"",
        "pass: {}",
        "passphrase is {}",
        "the password was {}",
        "wrong password \"{}\" for user \"app\"",
        "wrong password '{}' for user 'app'",
        "wrong password `{}`",
        "wrong password ({})",
        "password for admin: {}",
        "initial password for user admin is {}",
        "password {} rejected",
        "password => {}",
        ":password=>\"{}\"",
        "password := {}",
        "password -> {}",
        "map[password:{} user:app]",
        "{User:app Password:{} Host:db}",
        "<password>{}</password>",
        "<Password>{}",
        "<add key=\"Password\" value=\"{}\"/>",
        "requirepass {}",
        "CREATE USER app IDENTIFIED BY '{}'",
        "ALTER USER app WITH PASSWORD '{}'",
        "#psk=\"{}\"",
        "wpa_passphrase={}",
        "-Djavax.net.ssl.keyStorePassword={} -jar a.jar",
        "helm upgrade --set auth.password={} failed",
        "DD-API-KEY: {}",
        "X-Auth-Key: {}",
        "x-vault-token: {}",
        "encryption_key: {}",
        "user/password: app/{}",
        "credentials: app:{}",
        "login: app, password: {}",
    ] {
        let password = cases.password();
        cases.add(false, &password, sentence);
    }
    let digits = cases.random(8, DIGITS);
    for sentence in ["pin: {}", "OTP: {}", "one-time password: {}", "otp is {}", "pin={}"] {
        cases.add(false, &digits, sentence);
    }
}

/// Only spaces between the name and the value.
fn in_columns(cases: &mut Cases) {
    for sentence in [
        "password\t{}",
        "password  {}",
        "DB_PASSWORD        {}",
        "user\tapp\tpassword\t{}\tdb\tapp",
        "token\t{}",
        "secret   {}",
        "Password:\t{}",
        "| password | {} |",
        "password|{}",
        "│ password │ {} │",
        "password\u{a0}\u{a0}{}",
    ] {
        let password = cases.password();
        cases.add(false, &password, sentence);
        cases.add(false, "hunter-of-foxes", &sentence.replace("{}", "hunter-of-foxes"));
    }
}

fn of_commands(cases: &mut Cases) {
    for sentence in [
        "sh -c docker login -u app -p {} r.example",
        "mysql -u root -p{} app",
        "mysqldump -uroot -p'{}' app",
        "sshpass -p {} ssh host",
        "run: -p {}",
        "run --token={}",
        "run --token {}",
        "run --auth-token '{}'",
        "run --api-key {}",
        "run -password {}",
        "args: [\"--password\",\"{}\"]",
        "args: [\"--password\", \"{}\"]",
        "Args:[--secret {}]",
        "redis-cli -h db -a {} ping",
        "ldapsearch -D cn=admin -w {}",
        "curl -u 'admin:{}' https://h.example",
        "curl -uadmin:{} https://h.example",
        "curl --user \"admin:{}\" https://h.example",
        "etcdctl --user=root:{} member list",
        "ETCDCTL_USER=root:{} etcdctl member list",
    ] {
        let password = cases.password();
        cases.add(false, &password, sentence);
    }
}

fn over_lines(cases: &mut Cases) {
    for sentence in [
        "password: |\n  {}\nuser: app",
        "password: |-\n    {}\nuser: app",
        "password: >-\n  {}",
        "password: |2\n    first\n  {}\nuser: app",
        "password: |\n  first\n\n  {}\nuser: app",
        "auth:\n  password: >\n    {}\n  user: app",
        "- password: |\n    {}\n- user: app",
        "password:\n  {}",
        "password:\n{}",
        "password:\n\n{}",
        "\"password\":\n  \"{}\"",
        "password = \\\n  {}",
        "password =\n  {}",
        "Authorization:\nBearer {}",
        "> Authorization:\r\n>   Basic {}",
        "Authorization:\n  {}",
        "Cookie:\n  sid={}",
        "2026-11-23T12:33:58Z password:\n2026-11-23T12:33:58Z {}",
        "key: |\n  {}",
        "private key:\n  {}",
        "connection string:\n  Server=db;Pass={}",
        "command:\n- app\n- --password\n- {}",
        "command:\n  - \"--token\"\n  - \"{}\"",
        "env:\n- name: DB_PASSWORD\n  value: {}",
        "env:\n  - name: \"DB_PASSWORD\"\n    value: \"{}\"",
        "{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"{}\"\n}",
        "pass\u{200b}word: |\n  {}",
    ] {
        let password = cases.password();
        cases.add(false, &password, sentence);
    }
}

/// Container variables, as printed by the kubelet and the container runtime.
fn of_variables(cases: &mut Cases) {
    for sentence in [
        "start container &Container{Name:app,Env:[]EnvVar{EnvVar{Name:DB_PASSWORD,Value:{},ValueFrom:nil,},}}: CreateContainerError",
        "Env:[{Name:DB_PASSWORD Value:{} ValueFrom:nil}]",
        r#"{"name":"DB_PASSWORD","value":"{}"}"#,
        r#"env: [{"name": "API_TOKEN", "value": "{}"}]"#,
        r#"{"Key":"password","Value":"{}"}"#,
        "Env:[PATH=/bin DB_PASSWORD={} HOME=/]",
        r#"kubectl.kubernetes.io/last-applied-configuration: {"stringData":{"password":"{}"}}"#,
        "export DB_PASSWORD='{}'; ./run",
        "setenv SECRET_KEY_BASE {}",
    ] {
        let password = cases.password();
        cases.add(false, &password, sentence);
    }
}

/// Returns true if the text contains most of a secret, or twelve consecutive characters of it.
fn shows(text: &str, secret: &str) -> bool {
    let mut parts = (12..=secret.len()).map(|end| &secret[end - 12..end]);
    text.contains(&secret[secret.len() / 3..]) || parts.any(|part| text.contains(part))
}

#[test]
fn no_secret_of_a_service_is_shown() {
    let mut shown = Vec::new();
    for seed in 1..=5 {
        for Case { secret, sentence, .. } in cases(seed) {
            let lines: Vec<String> = sentence.lines().map(str::to_owned).collect();
            let as_written = [
                clean(&without_secrets(&sentence)),
                log_lines(std::slice::from_ref(&sentence)).concat(),
                log_lines(&lines).join(" "),
            ];
            if as_written.iter().any(|text| shows(text, &secret)) {
                shown.push(format!("{sentence}\n   {as_written:?}"));
            }
        }
    }
    assert!(shown.is_empty(), "\n{}", shown.join("\n"));
}

#[test]
fn secrets_are_of_many_kinds() {
    let (first, second) = (cases(1), cases(2));
    let sentences = |cases: &[Case]| -> std::collections::BTreeSet<String> {
        cases.iter().map(|case| case.sentence.replace(&case.secret, "{}")).collect()
    };
    assert!(first.len() >= KNOWN + 140, "{}", first.len());
    assert!(sentences(&first).len() >= 300, "{}", sentences(&first).len());
    let is_same = |(one, other): (&Case, &Case)| one.secret == other.secret && !one.secret.starts_with("hun");
    assert!(!first.iter().zip(&second).any(is_same), "each seed makes others");
}

/// Covers errors of libraries, files and servers, which are not filtered by an observer.
#[test]
fn no_token_with_a_prefix_is_shown_anywhere() {
    let mut shown = Vec::new();
    for seed in 1..=5 {
        for Case { secret, sentence, .. } in cases(seed).into_iter().filter(|case| case.anywhere) {
            let text = clean(&sentence);
            if shows(&text, &secret) {
                shown.push(format!("{sentence}\n   {text}"));
            }
        }
    }
    assert!(shown.is_empty(), "\n{}", shown.join("\n"));
}

/// Texts that only look like secrets, from logs of etcd, containerd, Talos, the kubelet, the API server, Cilium and DNS.
const HARMLESS: &[&str] = &[
    "pulling registry.example/a/b@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "registry.k8s.io/pause:3.9@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9 not found",
    "node ip-10-123-123-123.eu-central-1.compute.internal not found",
    "node talos-4ab-c1d is not ready",
    "pod kube-system/kube-scheduler-cp-1 3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f is gone",
    "/var/lib/kubelet/pki/kubelet-client-current.pem: no such file",
    "open /system/secrets/kubernetes/kube-apiserver/admission-control-config.yaml: no such file or directory",
    "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1234/fs is busy",
    "the token is missing",
    "the password was not accepted",
    "invalid bearer token",
    "a basic problem",
    "Unable to authenticate the request: invalid bearer token",
    "failed to parse kubelet flag: unknown flag: --bogus-flag",
    "dial tcp 10.0.0.1:6443: connect: connection refused",
    "dial tcp [fd00::1]:50000: i/o timeout",
    "https://10.0.0.1:6443/readyz?verbose: 500",
    "https://k8s.example:6443/api/v1/nodes?limit=500",
    "https://[fd00::1]:2379/health: timeout",
    "etcd member 8e9e05c52164694d is a learner",
    "x509: certificate signed by unknown authority",
    "x509: certificate is valid for kubernetes.default.svc, not cp-1.example.internal",
    "Talos v1.13.0-alpha.2-45-g1234567 is newer",
    "kubelet v1.35.4 on worker-10",
    "docker.io/library/alpine:3.20 could not be pulled",
    "ghcr.io/siderolabs/installer:v1.13.0 was installed",
    "cilium-operator-6f9bc8d9f7-x2x9z is restarting",
    "coredns-7db6d8ff4d-abcde: CrashLoopBackOff",
    "lease kube-node-lease/worker-1 was renewed 50s ago",
    "E1121 19:27:58.953732 3139 run.go:72] command failed",
    "2026-11-23T12:33:58.123456789Z etcd: raft term 12 index 1234567890",
    "volume pvc-3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f is not attached",
    "00:1b:44:11:3a:b7 has no carrier",
    "worker.eu.example.com does not resolve",
    "sk-worker-1.example.com: no route to host",
    "machine 4c4c4544-0051-3810-8052-b4c04f4e4d32 is unknown",
    "service account system:serviceaccount:kube-system:node-controller cannot list nodes",
    "User \"system:node:cp-1\" cannot get resource \"leases\" in API group \"coordination.k8s.io\"",
    "s.example.com:443 refused",
    "s3://backups/etcd/2026-11-23.snapshot: access denied",
    "user admin@talos-prod is not in the talosconfig",
    "ssh git@github.com:siderolabs/talos: no route",
    "CPU AMD-EPYC-7763 64-Core, 128 threads",
    r#"E1123 12:33:58.953732 3139 kubelet.go:2902] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized""#,
    r#"W1123 12:33:58.953732 1 authentication.go:368] "Error looking up in-cluster authentication configuration. Continuing without authentication configuration. This may treat all requests as anonymous." err="configmaps \"extension-apiserver-authentication\" is forbidden""#,
    r#"E1123 12:33:58.953732 1 authentication.go:73] "Unable to authenticate the request" err="[invalid bearer token, service account token has expired]""#,
    r#"E1123 12:33:58.953732 1 authentication.go:73] "Unable to authenticate the request" err="verifying certificate SN=1234567890, SKID=, AKID=AB:CD:EF:01:23 failed: x509: certificate has expired or is not yet valid""#,
    r#"E1123 12:33:58.953732 3139 secret.go:189] Couldn't get secret kube-system/cilium-clustermesh: secret "cilium-clustermesh" not found"#,
    r#"MountVolume.SetUp failed for volume "kube-api-access-x2x9z" : failed to fetch token: Post "https://127.0.0.1:7445/api/v1/namespaces/default/serviceaccounts/default/token": context deadline exceeded"#,
    r#"MountVolume.SetUp failed for volume "tls" : references non-existent secret key: tls.crt"#,
    r#"MountVolume.SetUp failed for volume "cert" : secret "webhook-server-cert" not found"#,
    r#"MountVolume.SetUp failed for volume "clustermesh-secrets" : failed to sync secret cache: timed out waiting for the condition"#,
    r#"Error: secret "db-credentials" not found"#,
    "Error: couldn't find key password in Secret default/db-credentials",
    "Error: couldn't find key DB_HOST in ConfigMap default/app",
    r#"Error: configmap "token-config" not found"#,
    "failed to fetch oauth token: unexpected status from POST request to https://auth.docker.io/token: 403 Forbidden",
    "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
    "no basic auth credentials",
    "FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.",
    r#"time="2026-11-23T12:33:58Z" level=error msg="StopPodSandbox for \"cilium-x2x9z\" failed" error="failed to destroy network for sandbox""#,
    r#"time="2026-11-23T12:33:58.123456789Z" level=info msg="loading plugin" id=io.containerd.snapshotter.v1.overlayfs type=io.containerd.snapshotter.v1"#,
    r#"time="2026-11-23T12:33:58Z" level=warning msg="cleaning up after shim disconnected" id=3f2b8c1e9d4a namespace=k8s.io"#,
    r#"level=error msg="failed to reload cni configuration after receiving fs change event(REMOVE \"/etc/cni/net.d/05-cilium.conflist\")" error="cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config""#,
    r#"{"level":"warn","ts":"2026-11-23T12:33:58.123456Z","caller":"etcdserver/util.go:170","msg":"apply request took too long","took":"312.5ms","expected-duration":"100ms","prefix":"read-only range ","request":"key:\"/registry/health\" ","response":"range_response_count:0 size:7"}"#,
    r#"{"level":"warn","ts":"2026-11-23T12:33:58.123456Z","caller":"auth/store.go:1238","msg":"simple token is not cryptographically signed"}"#,
    r#"{"level":"info","ts":"2026-11-23T12:33:58.123456Z","caller":"raft/raft.go:988","msg":"8e9e05c52164694d became leader at term 12"}"#,
    r#"{"level":"warn","ts":"2026-11-23T12:33:58.123456Z","caller":"rafthttp/stream.go:194","msg":"lost TCP streaming connection with remote peer","stream-reader-type":"stream MsgApp v2","local-member-id":"8e9e05c52164694d","remote-peer-id":"91bc3c398fb3c146","error":"EOF"}"#,
    r#"{"level":"warn","ts":"2026-11-23T12:33:58.123456Z","caller":"embed/config_logging.go:170","msg":"rejected connection on client endpoint","remote-addr":"10.0.0.5:41234","server-name":"","error":"remote error: tls: bad certificate"}"#,
    r#"{"level":"error","caller":"auth/store.go:321","msg":"auth: invalid auth token"}"#,
    "auth: request failed",
    "auth: user name is empty",
    "auth: authentication is not enabled",
    "auth: revision in header is old",
    "etcdserver: user name is empty",
    "etcdserver: invalid auth token",
    "etcdserver: mvcc: database space exceeded",
    "etcd key /registry/pods/kube-system/coredns-7db6d8ff4d-abcde not found",
    "etcdserver: key is not provided",
    "etcdserver: duplicate key given in txn request",
    r#"key "foo" not found"#,
    "key 'app.kubernetes.io/name' is not set",
    "failed to find key 0x0a00000100000000 in map cilium_lb4_services_v2",
    "failed to find key 0x0000000000000000000000000a000001 in map cilium_ipcache",
    "Unable to delete key 10.0.0.1:6443/TCP from map: no such file or directory",
    "unable to update element for map with file descriptor 21: no such key",
    r#"level=warning msg="Unable to update ipcache map entry on pod add" error="ipcache entry for podIP 10.244.1.5 owned by kvstore or agent" hostIP=10.244.1.5 k8sNamespace=kube-system podIP=10.244.1.5"#,
    r#"level=error msg="Failed to create identity" error="unable to allocate identity: key already exists" key="k8s:app=web;k8s:io.kubernetes.pod.namespace=default""#,
    r#"level=warning msg="Key allocation attempt failed" attempt=3 error="unable to create slave key 'k8s:app=web': Operation cannot be fulfilled" key="[k8s:app=web k8s:io.cilium.k8s.policy.cluster=default]" subsys=allocator"#,
    r#"level=fatal msg="WireGuard: failed to parse private key" error="open /var/run/cilium/wireguard: permission denied""#,
    "IPsec: no key found for SPI 3",
    "[ERROR] plugin/errors: 2 auth.docker.io. A: read udp 10.244.0.5:41234->10.0.0.53:53: i/o timeout",
    "[ERROR] plugin/errors: 2 4134519232109584413.6372827592815436171. HINFO: dial udp 10.0.0.53:53: connect: network is unreachable",
    r#"[INFO] 10.244.0.5:41234 - 4660 "AAAA IN token.actions.githubusercontent.com. udp 54 false 512" NOERROR qr,rd,ra 512 0.0012s"#,
    "[WARNING] plugin/kubernetes: starting server with unsynced Kubernetes API",
    r#"[FATAL] plugin/loop: Loop (127.0.0.1:41234 -> :53) detected for zone ".", see https://coredns.io/plugins/loop#troubleshooting. Query: "HINFO 4134519232109584413.6372827592815436171.""#,
    r#"W1123 12:33:58.953732 1 logging.go:59] [core] [Channel #1 SubChannel #2] grpc: addrConn.createTransport failed to connect to {Addr: "127.0.0.1:2379", ServerName: "127.0.0.1", }. Err: connection error: desc = "transport: authentication handshake failed: context deadline exceeded""#,
    r#"E1123 12:33:58.953732 1 controller.go:146] "Failed to ensure lease exists, will retry" err="Get \"https://127.0.0.1:7445/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/cp-1?timeout=10s\": dial tcp 127.0.0.1:7445: connect: connection refused" interval="7s""#,
    "I1123 12:33:58.953732 1 leaderelection.go:281] successfully acquired lease kube-system/kube-scheduler",
    "lease kube-system/kube-scheduler is held by cp-1_3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f",
    r#"I1123 12:33:58.953732 1 flags.go:64] FLAG: --authorization-mode="[Node,RBAC]""#,
    r#"I1123 12:33:58.953732 1 flags.go:64] FLAG: --token-auth-file="""#,
    r#"I1123 12:33:58.953732 1 flags.go:64] FLAG: --service-account-signing-key-file="/system/secrets/kubernetes/kube-apiserver/service-account.key""#,
    r#"I1123 12:33:58.953732 1 flags.go:64] FLAG: --tls-private-key-file="/var/lib/kubelet/pki/kubelet.key""#,
    r#"I1123 12:33:58.953732 1 flags.go:64] FLAG: --authentication-token-webhook-cache-ttl="2m0s""#,
    r#"I1123 12:33:58.953732 1 flags.go:64] FLAG: --enable-bootstrap-token-auth="true""#,
    r#"failed calling webhook "validate.nginx.ingress.kubernetes.io": failed to call webhook: Post "https://ingress-nginx-controller-admission.ingress-nginx.svc:443/networking/v1/ingresses?timeout=10s": context deadline exceeded"#,
    r#"failed calling webhook "webhook.cert-manager.io": failed to call webhook: Post "https://cert-manager-webhook.cert-manager.svc:443/validate?timeout=30s": x509: certificate signed by unknown authority"#,
    r#"failed calling webhook "rancher.cattle.io.secrets": failed to call webhook: Post "https://rancher-webhook.cattle-system.svc:443/v1/webhook/mutation/secrets?timeout=10s": no endpoints available for service "rancher-webhook""#,
    r#"failed calling webhook "default.machine.cluster.x-k8s.io": Post "https://capi-webhook-service.capi-system.svc:443/mutate-cluster-x-k8s-io-v1beta1-machine?timeout=10s": EOF"#,
    r#"failed calling webhook "config.webhook.serving.knative.dev": Post "https://webhook.knative-serving.svc:443/config-validation?timeout=10s": EOF"#,
    r#"conversion webhook for cert-manager.io/v1alpha2, Kind=Certificate failed: Post "https://cert-manager-webhook.cert-manager.svc:443/convert?timeout=30s": EOF"#,
    r#"user: warning: [2026-11-23T12:33:58.123456789Z]: [talos] service[etcd](Failed): Failed to run pre stage: failed to pull image "registry.k8s.io/etcd:v3.6.5": 1 error(s) occurred: failed to resolve reference"#,
    r#"[talos] task startAllServices (1/1): service "apid" to be "up", service "containerd" to be "up", service "etcd" to be "up""#,
    r#"[talos] controller failed {"component": "controller-runtime", "controller": "k8s.NodeApplyController", "error": "1 error(s) occurred: timeout"}"#,
    r#"[talos] controller failed {"component": "controller-runtime", "controller": "secrets.TrustdController", "error": "failed to sign API server CSR: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial tcp 10.0.0.1:50001: connect: connection refused\""}"#,
    r#"[talos] controller failed {"component": "controller-runtime", "controller": "cluster.DiscoveryServiceController", "error": "hello failed: rpc error: code = Unavailable"}"#,
    "[talos] error updating secrets.KubernetesDynamicCerts: no such resource",
    "rpc error: code = PermissionDenied desc = not authorized",
    "rpc error: code = Unauthenticated desc = invalid token",
    "installer image factory.talos.dev/metal-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:v1.12.0 could not be pulled",
    r#"Get "https://factory.talos.dev/image/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba/v1.12.0/metal-amd64.iso": EOF"#,
    "kubelet version v1.35.4+k3s1 (commit 0a1b2c3d4e5f) is too old",
    "Talos v1.13.0-alpha.2-45-g1234567-dirty",
    "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376",
    "built from commit 75cb2b7193e4e490e9fbdc236c0e811ccaba3376",
    "token expired",
    "token is expired by 3h0m0s",
    "the bearer token is invalid",
    "oauth2: cannot fetch token: 400 Bad Request",
    "error getting credentials - err: exit status 1, out: ``",
    "failed to load Kubernetes CA private key: open /system/secrets/kubernetes/ca.key: no such file or directory",
    "tls: failed to find any PEM data in key input",
    "tls: private key does not match public key",
    "x509: certificate relies on legacy Common Name field, use SANs instead",
    r#"password authentication failed for user "app""#,
    r#"pq: password authentication failed for user "grafana""#,
    "Access denied for user 'root'@'10.244.0.5' (using password: YES)",
    r#"FATAL: password authentication failed for user "postgres" (SQLSTATE 28P01)"#,
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOAUTH Authentication required.",
    "no password supplied",
    "session 12 closed",
    "session closed for user root",
    "Accepted publickey for core from 10.0.0.9 port 41234 ssh2: ED25519 SHA256:abcdef",
    "sessionAffinity: None",
    "secretName: webhook-server-cert",
    "tokens: 4, secrets: 12",
    "Started 3 sessions",
    r#"iptables-restore: line 42 failed: -A KUBE-SERVICES -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j KUBE-SVC-ABCDEF"#,
    "mkdir -p /var/lib/etcd: read-only file system",
    r#"exec: "nc -p 8080": executable file not found in $PATH"#,
    "Readiness probe failed: HTTP probe failed with statuscode: 503",
    r#"Liveness probe failed: Get "http://10.244.1.5:8080/healthz": dial tcp 10.244.1.5:8080: connect: connection refused"#,
    r#"Readiness probe failed: command timed out: "sh -c redis-cli ping" timed out after 1s"#,
    "0/5 nodes are available: 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 Insufficient memory.",
    r#"volume "pvc-3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f" has failed: rpc error: code = Internal desc = failed to attach volume to node worker-1"#,
    r#"AttachVolume.Attach failed for volume "pvc-3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f" : timed out waiting for external-attacher of csi.example.com CSI driver to attach volume csi-0a1b2c3d4e5f60718293a4b5c6d7e8f9"#,
    r#"Reconciler error" controller="secret" controllerGroup="" controllerKind="Secret" Secret="default/app-tls" namespace="default" name="app-tls" reconcileID="3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f" err="not found""#,
    r#""Error syncing item" key="kube-system/cilium-x2x9z" err="timed out""#,
    r#""Sync failed" key="default/web" secret="default/app-tls""#,
    "failed to renew lease: key mismatch, expected kube-system/kube-scheduler",
    r#"unknown key type "PUBLIC KEY""#,
    "public key: ssh-ed25519 is not accepted",
    "public-key=ed25519 rejected",
    "cache key: default/web",
    "monkey: banana",
    "hash key ring has 3 members",
    "Failed to parse auth config: unexpected end of JSON input",
    r#"level=error ts=2026-11-23T12:33:58.123Z caller=dispatch.go:352 component=dispatcher msg="Notify for alerts failed" num_alerts=1 err="slack/slack[0]: notify retry canceled after 2 attempts: channel \"alerts\": unexpected status code 404""#,
    "vault: permission denied for path secret/data/app",
    "Vault is sealed: 0 of 3 unseal keys provided",
    "failed to decrypt: no key could decrypt the data",
    r#"ExternalSecret "db" is not ready: could not get secret data from provider"#,
    "sealed-secrets-controller: unable to unseal: no key could decrypt secret (password)",
    "secrets-store-csi-driver-x2x9z: CrashLoopBackOff",
    "external-secrets-webhook-7db6d8ff4d-abcde: back-off restarting failed container",
    "token-cleaner-7db6d8ff4d-abcde: OOMKilled",
    "pod vault/vault-secrets-operator-controller-manager-7db6d8ff4d-abcde: CrashLoopBackOff",
    "dial tcp: lookup vault.secrets.svc.cluster.local: no such host",
    "dial tcp: lookup token.example.com on 10.96.0.10:53: no such host",
    "kernel: nf_conntrack: table full, dropping packet",
    "kernel: traps: auth[1234] general protection fault ip:7f3a2b1c4d5e sp:7ffc12345678 error:0",
    "kernel: EXT4-fs (sda3): recovery complete, UUID 3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f",
    r#"audit: type=1326 auid=4294967295 uid=0 gid=0 ses=4294967295 pid=1234 comm="etcd" sig=0 arch=c000003e syscall=435 compat=0 ip=0x7f3a2b1c4d5e code=0x7ffc0000"#,
    "DHCP: lease of 10.0.0.5 obtained, lease time 86400 seconds",
    "machine-id 3f2b8c1e9d4a4e6f8b7c1a2b3c4d5e6f is used twice",
    "traceID=3f2b8c1e9d4a4e6f8b7c1a2b3c4d5e6f spanID=3f2b8c1e9d4a4e6f",
    "request-id: 3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f",
    "etcd cluster id cdf818194e3a8c32, member 8e9e05c52164694d, leader 91bc3c398fb3c146",
    "pin: image registry.k8s.io/pause:3.10 is pinned",
    "CIDR 10.244.0.0/16 overlaps 10.96.0.0/12",
    "compass: north, bypass: off",
    r#"10.0.0.1 - - [23/Nov/2026:12:33:58 +0000] "GET /api/v1/namespaces/kube-system/pods/coredns-7db6d8ff4d-abcde/log?container=coredns&tailLines=20 HTTP/2.0" 200 1234"#,
    r#"Get "https://10.0.0.1:6443/api/v1/nodes?limit=500&resourceVersion=0": net/http: TLS handshake timeout"#,
    r#"Get "https://127.0.0.1:10250/containerLogs/kube-system/cilium-x2x9z/cilium-agent?tailLines=20": remote error: tls: internal error"#,
    "GET https://pkg-containers.githubusercontent.com/ghcr1/blobs/sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9: 403 Forbidden",
    "https://github.com/siderolabs/talos/commit/75cb2b7193e4e490e9fbdc236c0e811ccaba3376 has the fix",
    "https://prod-registry-k8s-io-eu-central-1.s3.dualstack.eu-central-1.amazonaws.com/containers/images/sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9: EOF",
    "unexpected EOF reading trailer of https://123456789012.dkr.ecr.eu-central-1.amazonaws.com/v2/app/manifests/v1.2.3",
    "http2: client connection force closed via ClientConn.Close",
    "service account issuer https://kubernetes.default.svc is not reachable",
    r#"Failed to make webhook authorizer request: Post "https://authz.example.com/authorize?timeout=30s": EOF"#,
    "failed to validate OIDC token: oidc: token is expired (Token Expiry: 2026-11-23 12:33:58 +0000 UTC)",
    "error: You must be logged in to the server (the server has asked for the client to provide credentials)",
    "Unauthorized: credentials were refused",
];

#[test]
fn harmless_texts_stay_legible() {
    let mut changed = Vec::new();
    for text in HARMLESS.iter().map(|text| (*text).to_owned()) {
        for shown in [clean(&text), clean(&without_secrets(&text)), log_lines(std::slice::from_ref(&text)).concat()] {
            if shown != text {
                changed.push(format!("{text}\n   {shown}"));
            }
        }
    }
    assert!(changed.is_empty(), "\n{}", changed.join("\n"));
    // A line without a secret hides none of the lines below it.
    let lines: Vec<String> = HARMLESS.iter().map(|text| (*text).to_owned()).collect();
    assert_eq!(log_lines(&lines), lines);
}

#[test]
fn no_more_than_the_value_is_hidden() {
    for (text, shown) in [
        ("password: |\n  a\n  b\nuser: app", "password: |\n***\n***\nuser: app"),
        ("password:\nuser: app", "password:\nuser: app"),
        ("Authorization:\nHost: h.example", "Authorization:\nHost: h.example"),
        (
            "env:\n- name: DB_PASSWORD\n  value: a\n- name: MODE\n  value: fast",
            "env:\n- name: DB_PASSWORD\n***\n- name: MODE\nvalue: fast",
        ),
        ("- --password\n- a\n- --v=2", "- --password\n***\n- --v=2"),
        ("a\ttoken\tb", "a token ***"),
    ] {
        assert_eq!(without_secrets(text), shown, "{text:?}");
    }
    for (text, shown) in [
        (
            "Post \"https://hooks.slack.com/services/T0AB1CD2E/B0AB1CD2E/x1\": EOF",
            "Post \"https://hooks.slack.com/services/***\": EOF",
        ),
        ("https://h.example/a?x=1&sig=ab%3D&y=2", "https://h.example/a?x=1&sig=***&y=2"),
        ("login{\"password\":\"a b\",\"user\":\"app\"}", "login{\"password\":\"***\",\"user\":\"app\"}"),
        ("pass\u{200b}word=a b", "pass\u{fffd}word=*** b"),
        ("password=a, token=b, user=c", "password=***, token=***, user=c"),
        ("psk=a1 done", "psk=*** done"),
    ] {
        assert_eq!(clean(text), shown, "{text:?}");
    }
}

#[test]
fn cleaning_twice_is_cleaning_once() {
    let harmless = HARMLESS.iter().map(|text| (*text).to_owned());
    for text in cases(1).into_iter().map(|case| case.sentence).chain(harmless) {
        let (cleaned, without) = (clean(&text), without_secrets(&text));
        assert_eq!(clean(&cleaned), cleaned, "{text}");
        assert_eq!(without_secrets(&without), without, "{text}");
    }
}

/// Parts of texts at which rules begin or end.
const PARTS: &[&str] = &[
    "password",
    "pass",
    "token",
    "key",
    "auth",
    "pin",
    "secret",
    "-p",
    "--token",
    " -u ",
    "Bearer ",
    "Basic ",
    "Authorization",
    "Cookie",
    "connection string",
    "name",
    "value",
    ":",
    "=",
    "|",
    "|-",
    ">-",
    "->",
    "::",
    ",",
    ";",
    "\"",
    "'",
    "`",
    "\\",
    "\\n",
    "\\\"",
    "%3D",
    "%25",
    "%20",
    "&",
    "&quot;",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "?",
    "@",
    "/",
    "//",
    "://",
    "#",
    "##",
    "::a::",
    "-",
    "_",
    ".",
    " ",
    "  ",
    "\t",
    "\n",
    "\n  ",
    "\n\n",
    "- ",
    "*",
    "***",
    "…",
    "a",
    "x1",
    "hunter2",
    "h.example",
    "hooks",
    "bot123456",
    "v1",
    "ghp_",
    "eyJ",
    "MII",
    "LS0tLS1",
    "sha256",
    "-----BEGIN ",
    "-----END ",
    "\u{200b}",
    "\u{fffd}",
    "\u{1b}]",
    "\u{1b}[",
    "\u{7}",
    "=x ",
    "ABCDEFGHIJ0123456789abcdefghij",
    "abcdef.0123456789abcdef",
    "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "is ",
    "for ",
    "é",
    "Ａ",
];

proptest! {
    #[test]
    fn cleaning_any_text_twice_is_cleaning_it_once(
        parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..40),
    ) {
        let text = parts.concat();
        let (cleaned, without) = (clean(&text), without_secrets(&text));
        prop_assert_eq!(clean(&cleaned), cleaned);
        let again = without_secrets(&without);
        prop_assert_eq!(again.trim_end(), without.trim_end());
    }
}

/// A rule that read the rest of the text repeatedly would take a hundred times the work for ten times the text.
#[test]
fn ten_times_the_text_is_ten_times_the_work() {
    let takes = |part: &str, length: usize| {
        let text = part.repeat(length / part.len() + 1);
        work(|| without_secrets(&text))
    };
    let is_square = |part: &&&str| is_square(takes(part, 8 << 10), takes(part, 80 << 10));
    // Other processes on the CPU may make a linear rule look quadratic, so the measurement is repeated.
    let square: Vec<_> = PARTS.iter().filter(is_square).filter(is_square).collect();
    assert!(square.is_empty(), "{square:?}");
}

/// No rule recognizes such a password, but the run knows it.
#[test]
fn what_the_run_has_sent_is_shown_by_no_text() {
    const OWN: &str = "blue \"whale\" under-water";
    for before in [true, false] {
        for (text, shown) in [
            ("401: you sent blue \"whale\" under-water, alice", "401: you sent ***, alice"),
            (r#"{"message":"you sent blue \"whale\" under-water"}"#, r#"{"message":"you sent ***"}"#),
            ("you sent blue%20%22whale%22%20under%2Dwater.", "you sent ***."),
            ("you sent blue \"whale\" un…", "you sent ***…"),
            ("blue whales are under water", "blue whales are under water"),
        ] {
            assert_eq!(clean(text) == shown, !before || text == shown, "{text}: {}", clean(text));
        }
        never_show(OWN);
    }
}
