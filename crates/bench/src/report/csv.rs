//! All figures as comma-separated values (RFC 4180), one record for each row of a table and for
//! each point of a curve, for spreadsheets and other programs.

use super::view::View;
use super::{Parameters, Report, Row, Table};

const HEAD: &str = "record,run,kind,table,unit,better,target,label,parameters,x,median,min,max,samples,noisy,failures";

/// The figures of the report, and of the earlier one.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let mut out = format!("{HEAD}\r\n");
    for (run, report) in [("now", Some(view.report)), ("earlier", view.earlier)] {
        let Some(report) = report else { continue };
        for table in &report.tables {
            for row in &table.rows {
                line(&mut out, &of_row(run, report, table, row));
            }
        }
        points(&mut out, run, report);
    }
    out
}

fn of_row(run: &str, report: &Report, table: &Table, row: &Row) -> [String; 16] {
    let summary = row.summary();
    let figure = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let axis = table.axis.as_ref().and_then(|axis| row.parameters.get(&axis.parameter));
    let failures: Vec<String> = row.failures.iter().map(ToString::to_string).collect();
    [
        "row".to_owned(),
        run.to_owned(),
        report.kind.clone(),
        table.title.clone(),
        table.unit.clone(),
        table.better.words().to_owned(),
        row.target.clone(),
        row.label.clone(),
        pairs(&row.parameters),
        axis.map_or_else(String::new, ToString::to_string),
        figure(summary.map(|summary| summary.median)),
        figure(summary.map(|summary| summary.min)),
        figure(summary.map(|summary| summary.max)),
        row.samples.len().to_string(),
        row.is_noisy().to_string(),
        failures.join("; "),
    ]
}

fn pairs(parameters: &Parameters) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join(";")
}

fn points(out: &mut String, run: &str, report: &Report) {
    for curve in &report.curves {
        for (seconds, value) in &curve.points {
            let mut fields: [String; 16] = Default::default();
            let known = [
                "point",
                run,
                &report.kind,
                &curve.title,
                &curve.unit,
                "",
                &curve.target,
                &curve.label,
            ];
            for (field, text) in fields.iter_mut().zip(known) {
                text.clone_into(field);
            }
            fields[9] = seconds.to_string();
            fields[10] = value.to_string();
            line(out, &fields);
        }
    }
}

fn line(out: &mut String, fields: &[String]) {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    out.push_str(&quoted.join(","));
    out.push_str("\r\n");
}

/// A field as RFC 4180 §2 has it. One that a spreadsheet would take for a formula gets an
/// apostrophe in front, since labels and errors contain words of servers.
fn quote(field: &str) -> String {
    let is_number = field.parse::<f64>().is_ok();
    let field = match field.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number {
        true => format!("'{field}"),
        false => field.to_owned(),
    };
    match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    /// Reads a line of fields back.
    fn fields(line: &str) -> Vec<String> {
        let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match (character, quoted) {
                ('"', true) if characters.peek() == Some(&'"') => field.extend(characters.next()),
                ('"', _) => quoted = !quoted,
                (',', false) => fields.push(std::mem::take(&mut field)),
                (other, _) => field.push(other),
            }
        }
        fields.push(field);
        fields
    }

    #[test]
    fn every_row_and_point_is_a_record_of_as_many_fields() {
        let report = sample();
        let text = write(&View::new(&report, Some(&report)));
        let lines: Vec<Vec<String>> = text.split_terminator("\r\n").map(fields).collect();
        assert_eq!(lines.len(), 1 + 2 * (3 + 6 + 3));
        assert!(lines.iter().all(|fields| fields.len() == 16), "{text}");
        assert_eq!(lines[1][7], "GET https <&\"'>");
        assert_eq!(lines[1][8], "connections=16");
        assert_eq!(lines[1][10..14], ["12", "11", "13", "3"]);
        assert_eq!(lines[3][15], "PUT: the server, \"se\", said no - ask its owner");
        assert_eq!(lines[4][9], "1");
        assert_eq!(lines[11][9..11], ["1", "8.5"]);
        assert_eq!(lines.iter().filter(|fields| fields[1] == "earlier").count(), 12);
    }

    #[test]
    fn no_field_is_a_formula() {
        assert_eq!(quote("=cmd()"), "'=cmd()");
        assert_eq!(quote("-1.5"), "-1.5");
        assert_eq!(quote("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
