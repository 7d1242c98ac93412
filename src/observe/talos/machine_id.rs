//! Converts a machine's id in Talos to its id in Kubernetes.

/// The digits of a node id.
const DIGITS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Bytes of `/etc/machine-id`.
const LENGTH: usize = 16;

/// Returns the `machineID` of the Node object for a machine with this id in discovery: Talos writes the first half of its id to
/// `/etc/machine-id`, and the kubelet reports that. `None` if it is not a node id.
pub(crate) fn machine_id(node_id: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut pending, mut bits) = (0_u32, 0);
    let last = node_id.len().checked_sub(1)?;
    for (place, character) in node_id.bytes().enumerate() {
        let digit = u32::try_from(DIGITS.iter().position(|it| *it == character)?).ok()?;
        pending |= digit << bits;
        // A digit has six bits, but 62 digits cannot represent all values: a value that begins with four ones is encoded with five bits.
        // The last digit has the remaining bits.
        bits += match digit {
            _ if place == last => 8,
            30 | 31 => 5,
            _ => 6,
        };
        if bits >= 8 {
            bytes.push(u8::try_from(pending & 0xff).ok()?);
            pending >>= 8;
            bits -= 8;
        }
    }
    // The digits begin with the last byte.
    let first: Vec<u8> = bytes.into_iter().rev().take(LENGTH).collect();
    let first: [u8; LENGTH] = first.try_into().ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_a_real_cluster_are_the_same_in_talos_and_in_kubernetes() {
        for (node_id, expected) in [
            ("njhexnmmwkLcfCxG78YAIkgzWIIfvKPqdmsPioJfEh8B", "7c844f934447d933b51e55ff2085b382"),
            ("DYzVGmImrJFlwOAfeEf3WfkSum0I2ZVF2jwLpL3IcdoD", "e875c2372e92f08f61556762349ae4a4"),
            ("4JZ3bFjmdb2o4SUOiquxig22tkzA4wDHtp9IZk5pGtC", "2b46a7991923da6d1c3c3803392ddb68"),
            ("Htf36ewvueIqlPLjHRUWIQgoSe46lSoJgkXqW6tf4XOA", "072fc7ede96a979202684a5eb8f25440"),
        ] {
            assert_eq!(machine_id(node_id).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_no_node_id_is_no_machine() {
        for text in ["", "A", "Dvz3", "not an id, though it is as long as one would be"] {
            assert_eq!(machine_id(text), None, "{text}");
        }
    }
}
