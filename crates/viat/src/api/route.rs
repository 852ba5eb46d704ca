//! One route: what it answers to, who may ask, and what the documentation says of it. Router, gate and OpenAPI are all made of these.

use axum::http::Method;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::Engine;
use crate::tokens::Scope;

/// Whom a route lets in.
#[derive(Clone, Copy, Debug)]
pub enum Needs {
    /// Everybody.
    Nothing,
    /// The route looks itself.
    Itself,
    /// Who is known at all.
    Known,
    /// Who has one of these scopes; the scope admin is always one.
    One(&'static [Scope]),
}

/// A schema, made when the documentation is.
pub type Makes = fn(&mut SchemaGenerator) -> Schema;

/// What a good answer has inside.
#[derive(Clone, Copy)]
pub enum Inside {
    /// A JSON document: a named schema of [`super::shapes`].
    Json(&'static str),
    /// Items of a named schema, in pages.
    Page(&'static str),
    /// Anything else, by its media type.
    Other(&'static str),
}

/// One route.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with `{names}` for what varies.
    pub path: &'static str,
    /// Who may ask.
    pub needs: Needs,
    /// What does it.
    pub handler: MethodRouter<Engine>,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What its query may say.
    pub query: Option<Makes>,
    /// What its body says, and whether there must be one.
    pub body: Option<(Makes, bool)>,
    /// Its good answers.
    pub answers: Vec<(u16, Inside)>,
    /// Refusals of its own, beside those that every route has.
    pub refusals: Vec<u16>,
    /// Headers that it heeds.
    pub headers: Vec<(&'static str, &'static str)>,
}

/// A route that has nothing yet.
pub fn route(method: Method, path: &'static str, needs: Needs, handler: MethodRouter<Engine>, summary: &'static str) -> Route {
    Route { method, path, needs, handler, summary, query: None, body: None, answers: Vec::new(), refusals: Vec::new(), headers: Vec::new() }
}

impl Route {
    /// The same, with a query.
    pub fn query<T: JsonSchema>(mut self) -> Route {
        self.query = Some(|generator| generator.subschema_for::<T>());
        self
    }

    /// The same, with a body that must be there.
    pub fn body<T: JsonSchema>(mut self) -> Route {
        self.body = Some((|generator| generator.subschema_for::<T>(), true));
        self
    }

    /// The same, with a body that may be left out.
    pub fn maybe_body<T: JsonSchema>(mut self) -> Route {
        self.body = Some((|generator| generator.subschema_for::<T>(), false));
        self
    }

    /// The same, with a good answer.
    pub fn answers(mut self, status: u16, inside: Inside) -> Route {
        self.answers.push((status, inside));
        self
    }

    /// The same, with a refusal.
    pub fn refuses(mut self, status: u16) -> Route {
        self.refusals.push(status);
        self
    }

    /// The same, with a header that it heeds.
    pub fn header(mut self, name: &'static str, what: &'static str) -> Route {
        self.headers.push((name, what));
        self
    }
}
