//! Decodes protobuf messages from Talos with the same tables that the encoder uses: a wrong field number would yield
//! nonsense.

use std::net::IpAddr;

use prost::encoding::{WireType, decode_key, decode_varint};
use serde_json::{Map, Value, json};

use super::{Field, Form, Kind};

/// Decodes a specification, with all fields that do not have their type's default value.
pub(super) fn decode(form: &Form, bytes: &[u8]) -> Value {
    let first = |kind: &Kind| fields(bytes).first().map_or(Value::Null, |(_, raw)| value(kind, raw));
    match form {
        Form::Message(known) => message(known, bytes),
        Form::Document => first(&Kind::Document),
        Form::Word(words) => first(&Kind::Enum(words)),
        Form::Text => first(&Kind::Text),
    }
}

enum Raw<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

fn fields(mut bytes: &[u8]) -> Vec<(u32, Raw<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (number, wire) = decode_key(&mut bytes).unwrap();
        let raw = match wire {
            WireType::Varint => Raw::Number(decode_varint(&mut bytes).unwrap()),
            WireType::SixtyFourBit => {
                let (eight, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                Raw::Double(f64::from_le_bytes(*eight))
            }
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).unwrap()).unwrap();
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Raw::Bytes(content)
            }
            other => panic!("field {number} has wire type {other:?}"),
        };
        found.push((number, raw));
    }
    found
}

fn message(known: &[Field], bytes: &[u8]) -> Value {
    let mut decoded = Map::new();
    for (number, raw) in fields(bytes) {
        let field = known.iter().find(|field| field.number == number);
        let field = field.unwrap_or_else(|| panic!("no field has the number {number}"));
        match (&field.kind, value(&field.kind, &raw)) {
            (Kind::List(_), item) => {
                decoded.entry(field.key).or_insert_with(|| json!([])).as_array_mut().unwrap().push(item);
            }
            (Kind::Map(_), Value::Object(entry)) => {
                decoded.entry(field.key).or_insert_with(|| json!({})).as_object_mut().unwrap().extend(entry);
            }
            (_, it) => drop(decoded.insert(field.key.to_owned(), it)),
        }
    }
    Value::Object(decoded)
}

fn value(kind: &Kind, raw: &Raw<'_>) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match (kind, raw) {
        (Kind::Text, Raw::Bytes(bytes)) => text(bytes).into(),
        (Kind::Bool, Raw::Number(it)) => (*it == 1).into(),
        (Kind::Integer, Raw::Number(it)) => it.cast_signed().into(),
        (Kind::Enum(names), Raw::Number(it)) => names[usize::try_from(*it).unwrap()].into(),
        (Kind::Code(names), Raw::Number(it)) => {
            let exact = names.iter().find(|(_, code)| code == it).map(|(name, _)| (*name).to_owned());
            let parts = names.iter().filter(|(_, code)| it & code != 0).map(|(name, _)| *name).collect::<Vec<_>>();
            exact.unwrap_or_else(|| parts.join(",")).into()
        }
        (Kind::Ip, Raw::Bytes(bytes)) => ip(bytes).to_string().into(),
        (Kind::Prefix, Raw::Bytes(bytes)) => {
            let all = fields(bytes);
            let Some((_, Raw::Number(length))) = all.iter().find(|(number, _)| *number == 2) else {
                panic!("no length")
            };
            format!("{}/{length}", ip(bytes)).into()
        }
        (Kind::HardwareAddress, Raw::Bytes(bytes)) => {
            bytes.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":").into()
        }
        (Kind::Document, Raw::Bytes(bytes)) => document(bytes),
        (Kind::Message(known), Raw::Bytes(bytes)) => message(known, bytes),
        (Kind::List(of), raw) => value(of, raw),
        (Kind::Map(of), Raw::Bytes(bytes)) => {
            let (mut key, mut entry) = (String::new(), default(of));
            for (number, raw) in fields(bytes) {
                match (number, &raw) {
                    (1, Raw::Bytes(bytes)) => key = text(bytes),
                    (_, raw) => entry = value(of, raw),
                }
            }
            json!({key: entry})
        }
        _ => panic!("a field is not a {kind:?}"),
    }
}

/// The value of a map entry whose value was not encoded.
fn default(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!(""),
        _ => json!({}),
    }
}

fn ip(bytes: &[u8]) -> IpAddr {
    let all = fields(bytes);
    let Some((_, Raw::Bytes(octets))) = all.iter().find(|(number, _)| *number == 1) else { panic!("no address") };
    match octets.len() {
        4 => <[u8; 4]>::try_from(*octets).unwrap().into(),
        _ => <[u8; 16]>::try_from(*octets).unwrap().into(),
    }
}

/// Decodes a `google.protobuf.Struct`.
fn document(bytes: &[u8]) -> Value {
    let entry = |(_, raw): (u32, Raw<'_>)| {
        let Raw::Bytes(bytes) = raw else { panic!("an entry is no message") };
        let mut entry = fields(bytes).into_iter();
        match (entry.next(), entry.next()) {
            (Some((1, Raw::Bytes(key))), Some((2, Raw::Bytes(value)))) => {
                (String::from_utf8(key.to_vec()).unwrap(), any(value))
            }
            _ => panic!("an entry is not a key and a value"),
        }
    };
    Value::Object(fields(bytes).into_iter().map(entry).collect())
}

/// Decodes a `google.protobuf.Value`.
fn any(bytes: &[u8]) -> Value {
    match fields(bytes).into_iter().next() {
        Some((1, _)) => Value::Null,
        Some((2, Raw::Double(it))) => json!(it),
        Some((3, Raw::Bytes(it))) => String::from_utf8(it.to_vec()).unwrap().into(),
        Some((4, Raw::Number(it))) => (it == 1).into(),
        Some((5, Raw::Bytes(it))) => document(it),
        Some((6, Raw::Bytes(it))) => fields(it)
            .into_iter()
            .map(|(_, raw)| if let Raw::Bytes(item) = raw { any(item) } else { panic!("an item is no message") })
            .collect(),
        _ => panic!("a value has no kind"),
    }
}
