//! The shapes of answers, as JSON Schema. They say what is always there; more may come with time.

use serde_json::{Map, Value, json};

/// All named shapes.
pub fn all() -> Map<String, Value> {
    let mut all = Map::new();
    for (name, shape) in runs().into_iter().chain(assets()).chain(others()) {
        all.insert(name.to_owned(), shape);
    }
    all
}

fn object(required: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = required.iter().map(|(name, shape)| ((*name).to_owned(), shape.clone())).collect();
    json!({"type": "object", "required": names, "properties": properties})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn maybe_text() -> Value {
    json!({"type": ["string", "null"]})
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn maybe_time() -> Value {
    json!({"type": ["string", "null"], "format": "date-time"})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

fn anything() -> Value {
    json!({})
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

const STATUSES: &[&str] = &["queued", "running", "waiting", "needs_attention", "compensating", "succeeded", "failed", "cancelled"];
const DECISIONS: &[&str] = &["pending_review", "approved", "rejected", "changes_requested", "expired", "withdrawn"];

fn attempt() -> Value {
    object(&[
        ("step", text()),
        ("path", text()),
        ("attempt", number()),
        ("status", one_of(&["running", "succeeded", "failed", "cancelled"])),
        ("class", maybe_text()),
        ("kind", maybe_text()),
        ("code", maybe_text()),
        ("message", maybe_text()),
        ("recovered", truth()),
        ("decision", json!({"type": ["object", "null"]})),
        ("wait_ms", number()),
        ("queued_ms", number()),
        ("started_at", maybe_time()),
        ("ended_at", maybe_time()),
    ])
}

fn runs() -> Vec<(&'static str, Value)> {
    let run = object(&[
        ("id", text()),
        ("workflow", text()),
        ("version", number()),
        ("status", one_of(STATUSES)),
        ("inputs", json!({"type": "object"})),
        ("outputs", anything()),
        ("error", json!({"type": ["object", "null"]})),
        ("created_at", time()),
        ("started_at", maybe_time()),
        ("ended_at", maybe_time()),
        ("deadline", maybe_time()),
        ("compensation", one_of(&["none", "available", "running", "complete", "partial"])),
        ("attempts", list(attempt())),
        ("ledger", list(object(&[("path", text()), ("status", text()), ("order", number())]))),
        ("deferred", list(object(&[("workflow", text()), ("args", anything()), ("run", maybe_text())]))),
        ("reviews", list(object(&[("id", text()), ("step", text()), ("title", text()), ("status", one_of(DECISIONS))]))),
    ]);
    let item = object(&[
        ("id", text()),
        ("workflow", text()),
        ("version", number()),
        ("status", one_of(STATUSES)),
        ("error_class", maybe_text()),
        ("error_code", maybe_text()),
        ("created_at", time()),
        ("ended_at", maybe_time()),
    ]);
    let transition = object(&[
        ("run_id", text()),
        ("workflow_version", number()),
        ("step_name", maybe_text()),
        ("from_status", maybe_text()),
        ("to_status", text()),
        ("attempt", json!({"type": ["integer", "null"]})),
        ("error_type", maybe_text()),
        ("side_effect_id", maybe_text()),
        ("timestamp", time()),
    ]);
    let said = object(&[("path", text()), ("fraction", json!({"type": ["number", "null"]})), ("note", maybe_text()), ("number", number())]);
    let review = object(&[
        ("id", text()),
        ("run", text()),
        ("workflow", maybe_text()),
        ("step", text()),
        ("path", text()),
        ("title", text()),
        ("status", one_of(DECISIONS)),
        ("assignees", list(text())),
        ("due", maybe_time()),
        ("created_at", time()),
        ("decided_at", maybe_time()),
        ("by", maybe_text()),
        ("comment", maybe_text()),
    ]);
    vec![
        ("Run", run),
        ("RunItem", item),
        ("Started", object(&[("id", text())])),
        ("Ledger", list(object(&[("path", text()), ("outcome", text())]))),
        ("Transitions", list(transition)),
        ("Progress", list(said)),
        ("RunLogs", list(object(&[("step", text()), ("path", text()), ("attempt", number()), ("log", text())]))),
        ("Review", review),
        ("Link", object(&[("url", text()), ("review", text()), ("expires_at", time())])),
    ]
}

fn assets() -> Vec<(&'static str, Value)> {
    let version = || [("name", text()), ("version", number()), ("hash", text())];
    let with = |more: &[(&'static str, Value)]| object(&version().into_iter().chain(more.iter().cloned()).collect::<Vec<_>>());
    let environment = || json!({"type": ["object", "null"]});
    vec![
        ("AssetItem", with(&[("created_at", time())])),
        (
            "Script",
            with(&[
                ("language", text()),
                ("created_at", time()),
                ("info", json!({"type": "object"})),
                ("signature", text()),
                ("environment", environment()),
                ("settings", json!({"type": "object"})),
                ("pool", json!({"type": "object"})),
                ("used_by", list(text())),
                ("source", text()),
            ]),
        ),
        ("SavedScript", with(&[("language", text()), ("info", json!({"type": "object"})), ("environment", environment())])),
        ("Workflow", with(&[("dialect", text()), ("created_at", time()), ("scripts", list(text())), ("source", text())])),
        ("SavedWorkflow", with(&[("warnings", list(json!({"type": "object"})))])),
        ("Verdict", object(&[("valid", truth()), ("diagnostics", list(json!({"type": "object"})))])),
        ("Version", object(&[("version", number()), ("published", truth()), ("created_at", time()), ("hash", text())])),
        ("Diff", object(&[("name", text()), ("from", number()), ("to", number()), ("diff", text())])),
        ("Published", object(&[("name", text()), ("published", number())])),
        ("Deleted", object(&[("name", text()), ("deleted", truth())])),
        ("DeletedEndpoint", object(&[("path", text()), ("deleted", truth())])),
        ("Endpoint", object(&[("path", text()), ("workflow", text()), ("mode", one_of(&["sync", "async"])), ("auth", maybe_text())])),
        (
            "Trial",
            object(&[
                ("script", text()),
                ("status", one_of(&["succeeded", "failed", "cancelled"])),
                ("value", anything()),
                ("error", json!({"type": ["object", "null"]})),
                ("log", text()),
                ("ran_ms", number()),
            ]),
        ),
        ("ScriptLogs", list(object(&[("run", text()), ("workflow", text()), ("path", text()), ("attempt", number()), ("status", text()), ("log", text())]))),
        (
            "Environment",
            object(&[
                ("key", text()),
                ("language", text()),
                ("state", text()),
                ("environment", maybe_text()),
                ("reason", maybe_text()),
                ("dependencies", list(text())),
                ("scripts", list(text())),
            ]),
        ),
        ("Built", object(&[("key", text()), ("state", text())])),
    ]
}

fn others() -> Vec<(&'static str, Value)> {
    let token = object(&[
        ("id", text()),
        ("name", text()),
        ("scopes", list(one_of(&["read", "run", "review", "admin"]))),
        ("status", one_of(&["active", "expired", "revoked"])),
        ("created_at", time()),
        ("created_by", text()),
        ("expires_at", maybe_time()),
        ("last_used_at", maybe_time()),
        ("revoked_at", maybe_time()),
    ]);
    let entry = object(&[("id", text()), ("at", time()), ("actor", text()), ("via", one_of(&["cli", "api", "link"])), ("action", text()), ("subject", text())]);
    let counts = ["idle", "busy", "starting", "waiting", "min", "max", "queue", "served", "started", "recycled"];
    let pool: Vec<(&str, Value)> = [("script", text()), ("version", number())].into_iter().chain(counts.map(|name| (name, number()))).collect();
    let problem = object(&[
        ("type", text()),
        ("title", text()),
        ("status", json!({"type": "integer", "minimum": 400, "maximum": 599})),
        ("detail", text()),
        ("help", maybe_text()),
    ]);
    let schedule = object(&[
        ("name", text()),
        ("cron", text()),
        ("timezone", text()),
        ("workflow", text()),
        ("paused", truth()),
        ("saved_at", time()),
        ("next", list(time())),
        ("fires", list(object(&[("at", time()), ("outcome", text()), ("run", maybe_text())]))),
    ]);
    let shelf = [
        ("Schedule", schedule),
        ("Paused", object(&[("name", text()), ("paused", truth())])),
        ("ResourceItem", object(&[("name", text()), ("kind", text()), ("version", number()), ("created_at", time())])),
        ("SavedResource", object(&[("name", text()), ("kind", text()), ("version", number()), ("hash", maybe_text())])),
        ("Rekeyed", object(&[("key", text()), ("secrets", number())])),
    ];
    let known = vec![("Token", token), ("AuditEntry", entry), ("Pools", list(object(&pool))), ("Problem", problem)];
    known.into_iter().chain(shelf).collect()
}
