//! The table of mapping processes, read from the files in `native/interop/mappings` and checked as a whole.

use std::collections::{HashMap, HashSet};

use ferromx_core::op::Inputs;
use ferromx_ops::registry;

use super::ast::{Call, Definition, Direction, Expr, Mapping, Process};
use super::{Schema, Signature, parser};
use crate::error::{Error, Position, Result};
use crate::ir::{Arity, OpDescriptor};

/// The signature of a built-in rule, by name.
pub(crate) type BuiltIns = fn(&str) -> Option<&'static Signature>;

/// The processes of a framework.
pub struct Table {
    built_ins: BuiltIns,
    /// The framework's own table, which is searched after this one.
    base: Option<&'static Table>,
    /// Rules that files define. A rule may use only those before it.
    rules: Vec<Definition>,
    processes: Vec<Process>,
    /// Processes for import by domain and operator, in the order of the files.
    import: HashMap<(String, String), Vec<usize>>,
}

impl Table {
    /// Reads and checks mapping files, given by name and content, for the operators of a framework.
    ///
    /// # Errors
    /// All mistakes, with file, line and column.
    pub fn read(files: &[(&str, &str)], schema: &Schema, built_ins: BuiltIns) -> Result<Table> {
        let mut all = Mapping::default();
        for (file, text) in files {
            let read = parser::mapping(file, text)?;
            all.rules.extend(read.rules);
            all.processes.extend(read.processes);
        }
        Table::checked(built_ins, None, all, schema)
    }

    /// Builds a table after checking all rules and processes.
    fn checked(built_ins: BuiltIns, base: Option<&'static Table>, read: Mapping, schema: &Schema) -> Result<Table> {
        let mut table = Table { built_ins, base, rules: Vec::new(), processes: Vec::new(), import: HashMap::new() };
        let mut errors: Vec<Error> = Vec::new();
        for rule in read.rules {
            errors.extend(check_rule(&table, schema, &rule).err());
            table.rules.push(rule);
        }
        let check = |process| ProcessCheck { process, schema, table: &table }.run().err();
        errors.extend(read.processes.iter().filter_map(check));
        match errors.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            many => return Err(Error::Format(many.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))),
        }
        for (i, process) in read.processes.iter().enumerate() {
            if process.direction != Direction::Export {
                let domain = schema.domain_of(&process.domain, &process.left.name).to_string();
                table.import.entry((domain, process.left.name.clone())).or_default().push(i);
            }
        }
        table.processes = read.processes;
        Ok(table)
    }

    /// All processes, in the order in which they are tried.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().chain(self.base.iter().flat_map(|base| &base.processes))
    }

    /// True if a process extends the framework's own table.
    pub fn is_added(&self, process: &Process) -> bool {
        self.base.is_some() && self.processes.iter().any(|own| std::ptr::eq(own, process))
    }

    /// The rules that are defined in files.
    pub fn definitions(&self) -> &[Definition] {
        &self.rules
    }

    /// The rule of this name, if a file defines it.
    pub fn definition(&self, name: &str) -> Option<&Definition> {
        let own = self.rules.iter().find(|rule| rule.signature.name == name);
        own.or_else(|| self.base?.definition(name))
    }

    /// The signature of a rule: a built-in one, or one that a file defines.
    pub fn signature(&self, name: &str) -> Option<&Signature> {
        (self.built_ins)(name).or_else(|| self.definition(name).map(|rule| &rule.signature))
    }

    /// The processes that import an operator in a version of its operator set, in the order in which they are tried.
    pub fn for_import<'t>(&'t self, domain: &str, op: &str, version: i64) -> impl Iterator<Item = &'t Process> {
        let key = (domain.to_string(), op.to_string());
        let of = move |table: &'t Table| {
            let indices = table.import.get(&key).map_or(&[][..], Vec::as_slice);
            indices.iter().map(|i| &table.processes[*i])
        };
        let all = of(self).chain(self.base.into_iter().flat_map(of.clone()));
        all.filter(move |p| (p.since..=p.until).contains(&version))
    }

    /// The processes that work in one direction only.
    pub fn one_way(&self) -> impl Iterator<Item = &Process> {
        self.processes().filter(|p| p.direction != Direction::Both)
    }
}

/// A framework's operators and processes, extended by those of a program. The program's processes are tried first.
pub struct Mappings {
    /// Operators.
    pub schema: Schema,
    /// Processes.
    pub table: Table,
}

impl Mappings {
    /// Reads and checks mapping files, given by name and content, that extend those of a framework.
    ///
    /// # Errors
    /// All mistakes, with file, line and column.
    pub fn extended(schema: &'static Schema, table: &'static Table, files: &[(String, String)]) -> Result<Mappings> {
        let mut all = Mapping::default();
        for (file, text) in files {
            let read = parser::mapping(file, text)?;
            all.operators.extend(read.operators);
            all.rules.extend(read.rules);
            all.processes.extend(read.processes);
        }
        let schema = Schema::extended(schema, &all.operators)?;
        let table = Table::checked(table.built_ins, Some(table), all, &schema)?;
        Ok(Mappings { schema, table })
    }

    /// The domains of the program's processes, except the framework's own.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.table.processes.iter().map(|p| p.domain.as_str()).filter(|domain| !domain.is_empty())
    }
}

/// Checks a rule that a file defines. `table` has the rules before it.
fn check_rule(table: &Table, schema: &Schema, rule: &Definition) -> Result<()> {
    let error = |position: Position, message: String| Error::Mapping { file: rule.file.clone(), position, message };
    let Signature { name, params, .. } = &rule.signature;
    if table.signature(name).is_some() {
        return Err(error(rule.position, format!("a rule {name} already exists: give this one another name")));
    }
    if registry::find(name).is_ok() {
        return Err(error(rule.position, format!("'{name}' is the name of an operator: give the rule another name")));
    }
    rule.body.try_visit(|e| match e {
        Expr::Name(used, Arity::One) if params.iter().any(|p| p.name == *used) => Ok(()),
        Expr::Name(used, _) => {
            let known: Vec<_> = params.iter().map(|p| p.name.as_ref()).collect();
            let text = format!("'{used}' is not an argument of the rule {name}; it has {}", known.join(", "));
            Err(error(rule.position, text))
        }
        // A rule may create operators of either side.
        Expr::Call(call) if table.signature(&call.name).is_some() || !schema.has(&call.name) => {
            check_call(table, call).map_err(|text| error(call.position, text))
        }
        _ => Ok(()),
    })
}

/// Checks the name, the arguments and the parameters of a rule or an MXNet operator.
fn check_call(table: &Table, call: &Call) -> Result<(), String> {
    if let Some(rule) = table.signature(&call.name) {
        if !call.named.is_empty() {
            return Err(format!("the rule {rule} takes its arguments by position"));
        }
        if !rule.takes(call.args.len()) {
            return Err(format!("{} arguments for the rule {rule}", call.args.len()));
        }
        return Ok(());
    }
    let Ok((_, def)) = registry::find(&call.name) else {
        return Err(format!("'{}' is neither a rule nor an operator", call.name));
    };
    let fields = def.fields();
    let inputs: &[_] = match def.signature.inputs {
        Inputs::Fixed(args) => args,
        Inputs::Variadic { .. } => &[],
    };
    if matches!(def.signature.inputs, Inputs::Fixed(_)) && call.args.len() > inputs.len() {
        return Err(format!("{} has only {} inputs", call.name, inputs.len()));
    }
    for (key, _) in &call.named {
        if !fields.iter().any(|f| f.name == key) && !inputs.iter().any(|a| a.name == key) {
            let known: Vec<_> = fields.iter().map(|f| f.name).collect();
            return Err(format!("{} has no parameter '{key}'; it has {}", call.name, known.join(", ")));
        }
    }
    Ok(())
}

/// Checks one process.
struct ProcessCheck<'a> {
    process: &'a Process,
    schema: &'a Schema,
    table: &'a Table,
}

impl ProcessCheck<'_> {
    fn error(&self, position: Position, message: String) -> Error {
        Error::Mapping { file: self.process.file.clone(), position, message }
    }

    fn run(&self) -> Result<()> {
        let p = self.process;
        if p.direction == Direction::Export {
            return self.check_export();
        }
        let mut names: HashSet<&str> = HashSet::new();
        self.bind_pattern(&p.left, &mut names)?;
        if p.direction == Direction::Both {
            self.check_invertible(&names)?;
        }
        let versions = self.versions(&p.left)?;
        for attribute in versions.iter().flat_map(|d| &d.attributes) {
            names.insert(&attribute.name);
        }
        let mut used: HashSet<&str> = p.left.named.iter().map(|(name, _)| name.as_str()).collect();
        for (name, value) in &p.lets {
            self.check_expression(value, &names)?;
            collect(value, &mut used);
            names.insert(name);
        }
        for (condition, _) in &p.conditions {
            self.check_expression(condition, &names)?;
            collect(condition, &mut used);
        }
        self.check_expression(&p.right, &names)?;
        collect(&p.right, &mut used);
        self.check_attributes(&versions, &used)
    }

    /// A process for both directions must have all inputs on MXNet's side, so that an export can find them.
    fn check_invertible(&self, inputs: &HashSet<&str>) -> Result<()> {
        let p = self.process;
        let mut used = HashSet::new();
        collect(&p.right, &mut used);
        p.lets.iter().for_each(|(_, e)| collect(e, &mut used));
        match inputs.iter().find(|name| !used.contains(*name)) {
            Some(name) => Err(self.error(
                p.position,
                format!("'{name}' does not occur on MXNet's side, so <-> cannot be read to the left"),
            )),
            None if !matches!(p.right, Expr::Call(_) | Expr::Pick(..) | Expr::Outputs(_)) => {
                Err(self.error(p.position, "MXNet's side is not an operator, so <-> cannot be read to the left".into()))
            }
            None => Ok(()),
        }
    }

    /// Checks an export-only process, whose pattern is MXNet's side.
    fn check_export(&self) -> Result<()> {
        let p = self.process;
        let mut names = HashSet::new();
        collect(&p.right, &mut names);
        for (name, e) in &p.lets {
            collect(e, &mut names);
            names.insert(name);
        }
        for part in p.left.parts() {
            part.try_visit(|e| match e {
                Expr::Name(name, _) if !names.contains(name.as_str()) => {
                    Err(self.error(p.position, format!("'{name}' is not on MXNet's side, so it has no value")))
                }
                Expr::Call(call) => self.check_framework_call(call),
                _ => Ok(()),
            })?;
        }
        self.check_framework_call(&p.left)?;
        p.right.try_visit(|e| match e {
            Expr::Call(call) => self.check_mxnet_call(call),
            _ => Ok(()),
        })
    }

    /// Checks a rule or an operator on the framework's side of an export-only process.
    fn check_framework_call(&self, call: &Call) -> Result<()> {
        if let Some(rule) = self.table.signature(&call.name) {
            return match rule.takes(call.args.len()) {
                true => Ok(()),
                false => {
                    let text = format!("{} arguments for the rule {rule}", call.args.len());
                    Err(self.error(call.position, text))
                }
            };
        }
        let versions = self.versions(call)?;
        for (key, _) in &call.named {
            if versions.iter().any(|op| op.attribute(key).is_none()) {
                return Err(self.error(
                    call.position,
                    format!("{} has no attribute {key} in some version of this range", call.name),
                ));
            }
        }
        Ok(())
    }

    /// The descriptors of an operator on the framework's side, in the versions to which the process applies.
    fn versions(&self, call: &Call) -> Result<Vec<&OpDescriptor>> {
        let p = self.process;
        let domain = self.schema.domain_of(&p.domain, &call.name);
        let all = self.schema.versions(domain, &call.name);
        // The version range of a process applies to its own domain; operators of other domains have their newest version.
        if domain != p.domain && !all.is_empty() {
            return Ok(all.last().into_iter().collect());
        }
        let next = |i: usize| all.get(i + 1).map_or(i64::MAX, |d| d.since);
        let found: Vec<_> =
            (0..all.len()).filter(|i| all[*i].since <= p.until && next(*i) > p.since).map(|i| &all[i]).collect();
        match found.is_empty() {
            true if all.is_empty() => {
                Err(self.error(call.position, format!("the framework has no operator {}", call.name)))
            }
            true => Err(self.error(call.position, format!("no version of {} is in this range", call.name))),
            false => Ok(found),
        }
    }

    /// Checks a pattern and collects the names that it binds to inputs and attributes.
    fn bind_pattern<'e>(&self, call: &'e Call, names: &mut HashSet<&'e str>) -> Result<()> {
        let versions = self.versions(call)?;
        for op in &versions {
            let is_variadic = op.inputs.last().is_some_and(|a| a.arity == Arity::Many);
            // Older versions of an operator may lack an optional input.
            let is_optional = |e: &Expr| matches!(e, Expr::Name(_, Arity::Optional));
            if call.args.iter().skip(op.inputs.len()).any(|e| !is_optional(e)) && !is_variadic {
                let text = format!("{} of version {} has only {} inputs", op.name, op.since, op.inputs.len());
                return Err(self.error(call.position, text));
            }
            for (key, _) in &call.named {
                if op.attribute(key).is_none() {
                    let text = format!("{} of version {} has no attribute {key}", op.name, op.since);
                    return Err(self.error(call.position, text));
                }
            }
        }
        for part in call.parts() {
            match part {
                Expr::Name(name, _) => drop(names.insert(name)),
                Expr::Call(inner) => self.bind_pattern(inner, names)?,
                Expr::Literal(_) => {}
                Expr::List(items) if items.iter().all(|e| matches!(e, Expr::Literal(_))) => {}
                _ => return Err(self.error(call.position, "a pattern consists of names, operators and values".into())),
            }
        }
        Ok(())
    }

    /// Checks the names, rules, operators and parameters of an expression on MXNet's side.
    fn check_expression(&self, e: &Expr, names: &HashSet<&str>) -> Result<()> {
        let error = |text: String| Err(self.error(self.process.position, text));
        e.try_visit(|e| match e {
            Expr::Name(name, _) if !names.contains(name.as_str()) => {
                error(format!("'{name}' is neither input nor attribute nor let"))
            }
            Expr::Name(_, Arity::One) => Ok(()),
            Expr::Name(name, _) => error(format!("the mark after '{name}' is only allowed in the pattern")),
            Expr::Call(call) => self.check_mxnet_call(call),
            _ => Ok(()),
        })
    }

    fn check_mxnet_call(&self, call: &Call) -> Result<()> {
        check_call(self.table, call).map_err(|text| self.error(call.position, text))
    }

    /// Every attribute of the operator must be used or listed as `unused`.
    fn check_attributes(&self, versions: &[&OpDescriptor], used: &HashSet<&str>) -> Result<()> {
        let p = self.process;
        for op in versions {
            for a in &op.attributes {
                if !used.contains(a.name.as_str()) && !p.unused.contains(&a.name) {
                    let text = format!(
                        "the attribute {} of {} (version {}) is not used in this process: use it, or list it as unused",
                        a.name, op.name, op.since
                    );
                    return Err(self.error(p.position, text));
                }
            }
        }
        let known = |name: &String| versions.iter().any(|d| d.attribute(name).is_some());
        match p.unused.iter().find(|name| !known(name)) {
            Some(name) => Err(self.error(p.position, format!("there is no attribute {name} to list as unused"))),
            None => Ok(()),
        }
    }
}

/// The names that an expression uses.
fn collect<'e>(e: &'e Expr, used: &mut HashSet<&'e str>) {
    e.visit(&mut |e| {
        if let Expr::Name(name, _) = e {
            used.insert(name);
        }
    });
}
