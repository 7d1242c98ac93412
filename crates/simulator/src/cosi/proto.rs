//! The protobuf encoding of a specification.

use std::net::IpAddr;

use jiff::SignedDuration;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value;

use super::{Field, Form, Kind};
use crate::version::TalosVersion;

/// Encodes a specification. Values that do not have the form of their type are left out.
pub(super) fn encode(form: &Form, spec: &Value, version: TalosVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    match form {
        Form::Message(fields) => message(fields, spec, version, &mut bytes),
        Form::Document => value(&Kind::Document, 1, spec, version, &mut bytes),
        Form::Word(words) => value(&Kind::Enum(words), 1, spec, version, &mut bytes),
        Form::Text => value(&Kind::Text, 1, spec, version, &mut bytes),
    }
    bytes
}

/// Encodes a message. proto3 omits default values.
fn message(fields: &[Field], spec: &Value, version: TalosVersion, out: &mut Vec<u8>) {
    for field in fields.iter().filter(|field| field.is_known(version)) {
        if let Some(found) = spec.get(field.key).filter(|found| !is_default(&field.kind, found)) {
            value(&field.kind, field.number, found, version, out);
        }
    }
}

pub(super) fn is_default(kind: &Kind, found: &Value) -> bool {
    match (kind, found) {
        (Kind::Enum(names), Value::String(text)) => names.first().is_some_and(|first| first == text),
        (Kind::Code(names), Value::String(text)) => names.iter().any(|(name, code)| name == text && *code == 0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Bool(it)) => !it,
        (_, Value::Number(it)) => it.as_u64() == Some(0),
        (Kind::Document, Value::Object(entries)) => entries.is_empty(),
        _ => false,
    }
}

fn value(kind: &Kind, number: u32, found: &Value, version: TalosVersion, out: &mut Vec<u8>) {
    match (kind, found) {
        (Kind::Text, Value::String(text)) => bytes(number, text.as_bytes(), out),
        (Kind::Bool, Value::Bool(it)) => varint(number, u64::from(*it), out),
        (Kind::Integer, Value::Number(it)) => {
            // Negative numbers are encoded as their two's complement.
            if let Some(it) = it.as_u64().or_else(|| it.as_i64().map(i64::cast_unsigned)) {
                varint(number, it, out);
            }
        }
        (Kind::Real, Value::Number(it)) => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend(it.as_f64().unwrap_or_default().to_le_bytes());
        }
        (Kind::Duration, Value::String(text)) => {
            if let Ok(it) = text.parse::<SignedDuration>() {
                nested(number, out, |out| {
                    for (number, part) in [(1, it.as_secs()), (2, it.subsec_nanos().into())] {
                        if part != 0 {
                            varint(number, part.cast_unsigned(), out);
                        }
                    }
                });
            }
        }
        (Kind::Enum(names), Value::String(text)) => {
            if let Some(index) = names.iter().position(|name| name == text) {
                varint(number, index as u64, out);
            }
        }
        (Kind::Code(names), Value::String(text)) => {
            let code = |word: &str| names.iter().find(|(name, _)| *name == word).map_or(0, |(_, code)| *code);
            varint(number, text.split(',').map(code).sum(), out);
        }
        (Kind::Ip, Value::String(text)) => {
            if let Ok(address) = text.parse() {
                nested(number, out, |out| bytes(1, &octets(address), out));
            }
        }
        (Kind::Prefix, Value::String(text)) => {
            if let Some((address, length)) = prefix(text) {
                nested(number, out, |out| {
                    bytes(1, &octets(address), out);
                    varint(2, length, out);
                });
            }
        }
        (Kind::HardwareAddress, Value::String(text)) => {
            let octets: Vec<u8> = text.split(':').filter_map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
            bytes(number, &octets, out);
        }
        (Kind::Document, Value::Object(_)) => nested(number, out, |out| object(found, out)),
        (Kind::Message(fields), Value::Object(_)) => nested(number, out, |out| message(fields, found, version, out)),
        (Kind::List(of), Value::Array(items)) => items.iter().for_each(|item| value(of, number, item, version, out)),
        (Kind::Map(of), Value::Object(entries)) => {
            for (key, entry) in entries {
                nested(number, out, |out| {
                    bytes(1, key.as_bytes(), out);
                    value(of, 2, entry, version, out);
                });
            }
        }
        _ => {}
    }
}

/// Encodes the fields of a `google.protobuf.Struct`.
fn object(found: &Value, out: &mut Vec<u8>) {
    for (key, entry) in found.as_object().into_iter().flatten() {
        nested(1, out, |out| {
            bytes(1, key.as_bytes(), out);
            nested(2, out, |out| any(entry, out));
        });
    }
}

/// Encodes the fields of a `google.protobuf.Value`.
fn any(found: &Value, out: &mut Vec<u8>) {
    match found {
        Value::Null => varint(1, 0, out),
        Value::Number(number) => {
            encode_key(2, WireType::SixtyFourBit, out);
            out.extend(number.as_f64().unwrap_or_default().to_le_bytes());
        }
        Value::String(text) => bytes(3, text.as_bytes(), out),
        Value::Bool(it) => varint(4, u64::from(*it), out),
        Value::Object(_) => nested(5, out, |out| object(found, out)),
        Value::Array(items) => nested(6, out, |out| items.iter().for_each(|item| nested(1, out, |out| any(item, out)))),
    }
}

fn prefix(text: &str) -> Option<(IpAddr, u64)> {
    let (address, length) = text.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok()?))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn varint(number: u32, it: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(it, out);
}

fn bytes(number: u32, it: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(it.len() as u64, out);
    out.extend_from_slice(it);
}

/// Encodes a message inside another message.
fn nested(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(number, &inner, out);
}
