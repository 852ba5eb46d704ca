//! All routes, in one table: the router, the gate and the documentation are made of it.

use axum::Router;
use axum::http::Method;
use axum::routing::{delete, get, post, put};

use super::pages::PageQuery;
use super::route::Inside::{Json, Other, Page};
use super::route::Needs::{Itself, Known, Nothing, One};
use super::route::{Route, route};
use super::{Engine, assets, commands, documents, endpoints, events, links, metrics, pools, progress, recover, reviews, runs, shelf, tokens};
use crate::ask::{DecisionBody, ExtensionBody, MigrateBody, ResumeBody, SettleBody, WhoBody};
use crate::links::LinkBody;
use crate::tokens::{Scope, TokenBody};

const READ: &[Scope] = &[Scope::Read];
const RUN: &[Scope] = &[Scope::Run];
const REVIEW: &[Scope] = &[Scope::Review];
const LOOK_AT_RUNS: &[Scope] = &[Scope::Read, Scope::Run];
const LOOK_AT_REVIEWS: &[Scope] = &[Scope::Read, Scope::Review];
const ADMIN: &[Scope] = &[];

const TEXT: &str = "text/plain";
const HTML: &str = "text/html";
const KEY: (&str, &str) = ("Idempotency-Key", "The same request again with the same key gives the same run; another one is refused.");

/// Everything that a server serves.
pub fn all() -> Vec<Route> {
    [starting(), of_runs(), scripts(), workflows(), bindings(), shelf(), schedules(), administration(), outside()].into_iter().flatten().collect()
}

/// The routes as a router.
pub fn router(routes: Vec<Route>) -> Router<Engine> {
    routes.into_iter().fold(Router::new(), |router, route| router.route(route.path, route.handler))
}

fn starting() -> Vec<Route> {
    vec![
        route(Method::GET, "/api/v1/runs", One(LOOK_AT_RUNS), get(runs::list), "Lists runs, newest first.")
            .query::<runs::RunsQuery>()
            .answers(200, Page("RunItem")),
        route(Method::POST, "/api/v1/runs", One(RUN), post(runs::start), "Starts a run in the background.")
            .body::<runs::StartBody>()
            .header(KEY.0, KEY.1)
            .answers(201, Json("Started"))
            .answers(200, Json("Started"))
            .refuses(404)
            .refuses(409),
    ]
}

/// What concerns runs and reviews that are there already.
pub fn of_runs() -> Vec<Route> {
    let look = |path, handler, summary| route(Method::GET, path, One(LOOK_AT_RUNS), handler, summary);
    let ask = |path, handler, summary| route(Method::POST, path, One(RUN), handler, summary).answers(202, Json("Started")).refuses(409);
    vec![
        route(Method::GET, "/api/v1/runs/{run}", One(LOOK_AT_RUNS), get(runs::show), "Shows a run.").answers(200, Json("Run")).refuses(409),
        look("/api/v1/runs/{run}/ledger", get(recover::show_ledger), "What each script and compensate entry came to.")
            .answers(200, Json("Ledger"))
            .refuses(409),
        look("/api/v1/runs/{run}/transitions", get(recover::show_transitions), "Every change of state of a run and of its entries.")
            .answers(200, Json("Transitions"))
            .refuses(409),
        look("/api/v1/runs/{run}/progress", get(progress::show), "What the scripts of a run said last of themselves.")
            .answers(200, Json("Progress"))
            .refuses(409),
        look("/api/v1/runs/{run}/logs", get(assets::run_logs), "What the attempts of a run wrote.")
            .query::<assets::RunLogsQuery>()
            .answers(200, Json("RunLogs"))
            .refuses(409),
        look("/api/v1/runs/{run}/events", get(events::stream), "What happens to a run, as it happens (server-sent events), until it ends.")
            .header("Last-Event-ID", "Begin after the event with this id.")
            .answers(200, Other("text/event-stream"))
            .answers(204, Other(""))
            .refuses(409),
        ask("/api/v1/runs/{run}/events", post(runs::event), "Sends an event to a run.").body::<runs::EventBody>(),
        ask("/api/v1/runs/{run}/cancel", post(runs::cancel), "Cancels a run.").maybe_body::<runs::CancelBody>(),
        ask("/api/v1/runs/{run}/settle", post(recover::settle), "Says what came of an attempt whose outcome is unknown.").body::<SettleBody>(),
        ask("/api/v1/runs/{run}/compensate", post(recover::compensate), "Undoes the effects of a run that ended badly.").maybe_body::<WhoBody>(),
        ask("/api/v1/runs/{run}/resume", post(recover::resume), "Lets a failed run go on.").maybe_body::<ResumeBody>(),
        ask("/api/v1/runs/{run}/migrate", post(recover::migrate), "Moves a run to another version of its workflow.").body::<MigrateBody>(),
        route(Method::GET, "/api/v1/reviews", One(LOOK_AT_REVIEWS), get(reviews::list), "Lists reviews, newest first.")
            .query::<reviews::Wanted>()
            .answers(200, Page("Review")),
        route(Method::GET, "/api/v1/reviews/{id}", One(LOOK_AT_REVIEWS), get(reviews::show), "Shows a review.").answers(200, Json("Review")),
        route(Method::POST, "/api/v1/reviews/{id}/decision", One(REVIEW), post(reviews::decide), "Decides a review, once.")
            .body::<DecisionBody>()
            .answers(200, Json("Review"))
            .refuses(409),
        route(Method::POST, "/api/v1/reviews/{id}/extension", One(REVIEW), post(reviews::extend), "Moves the expiry of a review.")
            .body::<ExtensionBody>()
            .answers(200, Json("Review"))
            .refuses(409),
    ]
}

fn scripts() -> Vec<Route> {
    let one = "/api/v1/scripts/{name}";
    vec![
        route(Method::GET, "/api/v1/scripts", One(READ), get(assets::scripts), "Lists scripts, newest first.")
            .query::<PageQuery>()
            .answers(200, Page("AssetItem")),
        route(Method::GET, one, One(READ), get(assets::show_script), "Shows a script.").query::<assets::VersionQuery>().answers(200, Json("Script")),
        conditional(route(Method::PUT, one, One(ADMIN), put(assets::put_script), "Saves a script as a new version."))
            .body::<assets::ScriptBody>()
            .answers(200, Json("SavedScript")),
        route(Method::DELETE, one, One(ADMIN), delete(assets::delete_script), "Deletes a script that no workflow uses.")
            .answers(200, Json("Deleted"))
            .refuses(409),
        route(
            Method::POST,
            "/api/v1/scripts/{name}/test",
            One(ADMIN),
            post(assets::test_script),
            "Makes one attempt of a script, alone, and waits for its end.",
        )
        .body::<assets::TrialBody>()
        .answers(200, Json("Trial"))
        .refuses(409),
        route(Method::GET, "/api/v1/scripts/{name}/logs", One(READ), get(assets::script_logs), "What a script's newest attempts wrote.")
            .query::<assets::LogsQuery>()
            .answers(200, Json("ScriptLogs")),
    ]
}

fn workflows() -> Vec<Route> {
    let one = "/api/v1/workflows/{name}";
    vec![
        route(Method::GET, "/api/v1/workflows", One(READ), get(assets::workflows), "Lists workflows, newest first.")
            .query::<PageQuery>()
            .answers(200, Page("AssetItem")),
        route(Method::POST, "/api/v1/validate", One(READ), post(assets::validate), "Checks a workflow without saving it.")
            .body::<assets::WorkflowBody>()
            .answers(200, Json("Verdict")),
        route(Method::GET, one, One(READ), get(assets::show_workflow), "Shows a workflow.").query::<assets::VersionQuery>().answers(200, Json("Workflow")),
        conditional(route(Method::PUT, one, One(ADMIN), put(assets::put_workflow), "Saves a workflow as a new version."))
            .body::<assets::WorkflowBody>()
            .answers(200, Json("SavedWorkflow")),
        route(Method::DELETE, one, One(ADMIN), delete(assets::delete_workflow), "Deletes a workflow that nothing uses.")
            .answers(200, Json("Deleted"))
            .refuses(409),
        route(Method::GET, "/api/v1/workflows/{name}/versions", One(READ), get(assets::versions), "Lists a workflow's versions, newest first.")
            .query::<PageQuery>()
            .answers(200, Page("Version")),
        route(Method::GET, "/api/v1/workflows/{name}/diff", One(READ), get(assets::diff), "Shows what changed between two versions.")
            .query::<assets::DiffQuery>()
            .answers(200, Json("Diff"))
            .refuses(409),
        route(Method::POST, "/api/v1/workflows/{name}/publish", One(ADMIN), post(assets::publish), "Publishes a version.")
            .maybe_body::<assets::PublishBody>()
            .answers(200, Json("Published"))
            .refuses(409),
        route(
            Method::POST,
            "/api/v1/workflows/{name}/test",
            One(ADMIN),
            post(assets::test_workflow),
            "Runs the draft and waits for its end, succeeded or not.",
        )
        .body::<assets::RehearsalBody>()
        .answers(200, Json("Run"))
        .refuses(409),
    ]
}

fn conditional(route: Route) -> Route {
    let route = route.header("If-Match", "Only if the newest version has this ETag.").header("If-None-Match", "`*`: only if it is not there yet.");
    route.refuses(409).refuses(412)
}

/// What connects the inside with the outside.
fn bindings() -> Vec<Route> {
    vec![
        route(Method::GET, "/api/v1/endpoints", One(READ), get(assets::endpoints), "Lists endpoints, newest first.")
            .query::<PageQuery>()
            .answers(200, Page("Endpoint")),
        route(Method::POST, "/api/v1/endpoints", One(ADMIN), post(assets::post_endpoint), "Binds a route to a published workflow.")
            .body::<assets::EndpointBody>()
            .answers(201, Json("Endpoint"))
            .refuses(404)
            .refuses(409),
        route(Method::DELETE, "/api/v1/endpoints/{*path}", One(ADMIN), delete(assets::delete_endpoint), "Frees a route.")
            .answers(200, Json("DeletedEndpoint"))
            .refuses(409),
        route(Method::GET, "/api/v1/environments", One(READ), get(assets::all_environments), "Lists the environments that scripts need.")
            .query::<PageQuery>()
            .answers(200, Page("Environment")),
        route(Method::GET, "/api/v1/environments/{name}", One(READ), get(assets::show_environment), "Shows the environment of a script.")
            .answers(200, Json("Environment"))
            .refuses(409),
        route(Method::POST, "/api/v1/environments/{name}/build", One(ADMIN), post(assets::build_environment), "Builds an environment and waits for it.")
            .maybe_body::<assets::BuildBody>()
            .answers(200, Json("Built"))
            .refuses(409),
        route(Method::POST, "/api/v1/reviews/{id}/links", One(REVIEW), post(reviews::link), "Makes a link with which somebody decides a review in a browser.")
            .body::<LinkBody>()
            .answers(201, Json("Link"))
            .refuses(409),
        route(Method::GET, "/api/v1/pools", One(READ), get(pools::show), "What the workers of each script are doing.").answers(200, Json("Pools")),
    ]
}

fn shelf() -> Vec<Route> {
    let (resource, secret) = ("/api/v1/resources/{name}", "/api/v1/secrets/{name}");
    vec![
        route(Method::GET, "/api/v1/resources", One(READ), get(shelf::resources), "Lists resources, newest first; secrets without their values.")
            .query::<PageQuery>()
            .answers(200, Page("ResourceItem")),
        route(Method::GET, resource, One(READ), get(shelf::show_resource), "Shows a resource; the value of a secret is never shown.")
            .query::<assets::VersionQuery>()
            .answers(200, Json("ResourceItem")),
        route(Method::PUT, resource, One(ADMIN), put(shelf::put_resource), "Saves a resource as a new version.")
            .body::<shelf::ResourceBody>()
            .answers(200, Json("SavedResource"))
            .refuses(409),
        route(Method::DELETE, resource, One(ADMIN), delete(shelf::delete_resource), "Deletes a resource.").answers(200, Json("Deleted")).refuses(409),
        route(Method::GET, "/api/v1/secrets", One(READ), get(shelf::secrets), "Lists secrets, newest first, without their values.")
            .query::<PageQuery>()
            .answers(200, Page("ResourceItem")),
        route(Method::POST, "/api/v1/secrets", One(ADMIN), post(shelf::rekey), "Seals every secret with a new key.").answers(200, Json("Rekeyed")).refuses(409),
        route(Method::GET, secret, One(READ), get(shelf::show_secret), "Shows what is known of a secret, never its value.").answers(200, Json("ResourceItem")),
        route(Method::PUT, secret, One(ADMIN), put(shelf::put_secret), "Saves a secret, encrypted.")
            .body::<shelf::SecretBody>()
            .answers(200, Json("SavedResource"))
            .refuses(409),
        route(Method::DELETE, secret, One(ADMIN), delete(shelf::delete_secret), "Deletes a secret that no script declares.")
            .answers(200, Json("Deleted"))
            .refuses(409),
    ]
}

fn schedules() -> Vec<Route> {
    let one = "/api/v1/schedules/{name}";
    vec![
        route(Method::GET, "/api/v1/schedules", One(READ), get(shelf::schedules), "Lists schedules, newest first.")
            .query::<PageQuery>()
            .answers(200, Page("Schedule")),
        route(Method::GET, one, One(READ), get(shelf::show_schedule), "Shows a schedule: when it fires next, and what came of the last fires.")
            .answers(200, Json("Schedule")),
        route(Method::PUT, one, One(ADMIN), put(shelf::put_schedule), "Creates or changes a schedule.")
            .body::<shelf::ScheduleBody>()
            .answers(200, Json("Schedule"))
            .refuses(409),
        route(Method::DELETE, one, One(ADMIN), delete(shelf::delete_schedule), "Deletes a schedule; its runs stay.").answers(200, Json("Deleted")).refuses(409),
        route(Method::POST, "/api/v1/schedules/{name}/pause", One(ADMIN), post(shelf::pause), "Keeps a schedule from firing.")
            .answers(200, Json("Paused"))
            .refuses(409),
        route(Method::POST, "/api/v1/schedules/{name}/resume", One(ADMIN), post(shelf::resume), "Lets a schedule fire again.")
            .answers(200, Json("Paused"))
            .refuses(409),
    ]
}

fn administration() -> Vec<Route> {
    vec![
        route(Method::GET, "/api/v1/tokens", One(ADMIN), get(tokens::list), "Lists access tokens, newest first.")
            .query::<PageQuery>()
            .answers(200, Page("Token")),
        route(Method::POST, "/api/v1/tokens", One(ADMIN), post(tokens::create), "Makes an access token; it is in this answer and nowhere else.")
            .body::<TokenBody>()
            .answers(201, Json("Token"))
            .refuses(409),
        route(Method::DELETE, "/api/v1/tokens/{token}", One(ADMIN), delete(tokens::revoke), "Makes a token worthless.")
            .answers(200, Json("Token"))
            .refuses(409),
        route(Method::GET, "/api/v1/audit", One(ADMIN), get(tokens::show_audit), "Lists changes and decisions, newest first.")
            .query::<tokens::Wanted>()
            .answers(200, Page("AuditEntry")),
        route(
            Method::POST,
            "/api/v1/commands",
            Known,
            post(commands::start),
            "Runs a command that was typed elsewhere; what it prints comes back as lines of JSON.",
        )
        .body::<commands::CommandBody>()
        .answers(200, Other("application/x-ndjson")),
        route(Method::DELETE, "/api/v1/commands/{id}", Known, delete(commands::interrupt), "Interrupts a command.").answers(204, Other("")),
        route(Method::POST, "/api/v1/commands/{id}/wants", Known, post(commands::want), "A command asks for what it reads.")
            .body::<commands::Want>()
            .answers(200, Other("application/octet-stream")),
        route(Method::PUT, "/api/v1/commands/{id}/wants/{number}", Known, put(commands::give), "Gives a command what it asked for.")
            .query::<commands::GivenQuery>()
            .answers(204, Other("")),
        route(Method::GET, "/metrics", One(READ), get(metrics::show), "What is counted and timed, for Prometheus.").answers(200, Other(TEXT)),
        route(Method::GET, "/api/openapi.json", Known, get(documents::openapi), "This description.").answers(200, Other("application/json")),
        route(Method::GET, "/api/docs", Known, get(documents::page), "This description, to be read.").answers(200, Other(HTML)),
    ]
}

/// What those use who know nothing of the inside.
fn outside() -> Vec<Route> {
    vec![
        route(Method::GET, "/healthz", Nothing, get(documents::alive), "Whether the server lives.").answers(200, Other(TEXT)),
        route(Method::GET, "/readyz", Nothing, get(documents::ready), "Whether its store answers.").answers(200, Other(TEXT)),
        route(Method::GET, "/links/review/{token}", Itself, get(links::show), "The page of a review's link.").answers(200, Other(HTML)),
        route(Method::POST, "/links/review/{token}", Itself, post(links::decide), "Decides with a link.").answers(200, Other(HTML)),
        route(
            Method::POST,
            "/e/{*route}",
            Itself,
            post(endpoints::call),
            "Runs the workflow that is bound to the route; what it answers is the workflow's own.",
        )
        .header(KEY.0, KEY.1)
        .answers(200, Other("application/json"))
        .answers(202, Json("Started")),
    ]
}
