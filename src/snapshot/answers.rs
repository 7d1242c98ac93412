//! The rows of a source's answers: from one line come the field, its gap before the call, the missing answer behind a fact, and the ways
//! in which the laws damage it.

use super::{Gap, GapKind, Observed};

/// A named answer.
pub(super) struct Answer<'a> {
    pub(super) what: &'static str,
    /// The reason why the answer is missing, if it is.
    pub(super) gap: Option<&'a Gap>,
    pub(super) need: Need,
}

/// The condition under which a missing answer makes the checks that use it undetermined.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Always,
    /// Optional: older releases lack it, some roles cannot read it, and its checks only warn.
    UnlessRefused,
    /// Older releases do not support it.
    UnlessUnsupported,
    /// Not required: another answer covers it, or it only adds detail.
    Never,
}

impl<'a> Answer<'a> {
    /// An answer that is always needed.
    pub(super) fn new<T>(what: &'static str, observed: &'a Observed<T>) -> Self {
        Self { what, gap: observed.as_ref().err(), need: Need::Always }
    }

    pub(super) fn needed(self, need: Need) -> Self {
        Self { need, ..self }
    }
}

impl Need {
    /// Returns whether a gap of this kind leaves checks without a verdict.
    pub(super) fn holds_for(self, gap: GapKind) -> bool {
        match self {
            Self::Always => true,
            Self::UnlessRefused => !matches!(gap, GapKind::Forbidden | GapKind::Unsupported),
            Self::UnlessUnsupported => gap != GapKind::Unsupported,
            Self::Never => false,
        }
    }
}

/// Defines the answers of a source. The first block has the fields that are not answers, each with its value before any call. A row after it
/// is a field, the type of its answer, the fact that it belongs to, its name in the API, and, if it is not always needed, the [`Need`].
macro_rules! answers {
    (@need) => { Need::Always };
    (@need $need:ident) => { Need::$need };
    (
        $(#[$of_struct:meta])*
        $name:ident {
            $($(#[$of_other:meta])* $other:ident: $other_type:ty = $before:expr,)*
        }
        $($(#[$of_field:meta])* $field:ident: $type:ty => $fact:ident $what:literal $($need:ident)?,)+
    ) => {
        $(#[$of_struct])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name {
            $($(#[$of_other])* pub(crate) $other: $other_type,)*
            $($(#[$of_field])* pub(crate) $field: $crate::snapshot::Observed<$type>,)+
        }

        impl $name {
            /// The value before any call.
            fn before() -> Self {
                Self {
                    $($other: $before,)*
                    $($field: Err($crate::snapshot::Gap::not_asked()),)+
                }
            }

            /// Returns the answers that belong to the fact, missing or not.
            pub(super) fn answers(
                &self,
                of: $crate::model::Fact,
            ) -> impl Iterator<Item = $crate::snapshot::answers::Answer<'_>> {
                self.every_answer().filter(move |(fact, _)| *fact == of).map(|(_, answer)| answer)
            }

            pub(super) fn every_answer(
                &self,
            ) -> impl Iterator<Item = ($crate::model::Fact, $crate::snapshot::answers::Answer<'_>)> {
                use $crate::snapshot::answers::{Answer, Need};
                [$((
                    $crate::model::Fact::$fact,
                    Answer::new($what, &self.$field).needed(answers!(@need $($need)?)),
                ),)+]
                .into_iter()
            }

            /// Returns every answer with its fact and the name of its field.
            #[cfg(test)]
            pub(crate) fn answers_mut(
                &mut self,
            ) -> Vec<($crate::model::Fact, &'static str, &mut dyn $crate::snapshot::answers::Damage)> {
                vec![$(($crate::model::Fact::$fact, stringify!($field), &mut self.$field),)+]
            }
        }
    };
}
pub(super) use answers;

#[cfg(test)]
pub(crate) use damage::Damage;

/// Damage that the laws do to any answer.
#[cfg(test)]
mod damage {
    use crate::snapshot::{EtcdStatus, Gap, Leases, Observed, Readyz, ServingCertificate};

    /// The content of an answer.
    pub(crate) trait Content: PartialEq {
        /// Removes everything. Returns false if nothing was removed: it was empty, or has no empty form.
        fn clear(&mut self) -> bool;
        /// Reorders the content. `below` returns a number less than its argument.
        fn shuffle(&mut self, _below: &mut dyn FnMut(usize) -> usize) {}
    }

    impl<T: PartialEq> Content for Vec<T> {
        fn clear(&mut self) -> bool {
            !std::mem::take(self).is_empty()
        }

        fn shuffle(&mut self, below: &mut dyn FnMut(usize) -> usize) {
            for last in (1..self.len()).rev() {
                let other = below(last + 1);
                self.swap(last, other);
            }
        }
    }

    impl<T: PartialEq> Content for Option<T> {
        fn clear(&mut self) -> bool {
            self.take().is_some()
        }
    }

    impl Content for Leases {
        fn clear(&mut self) -> bool {
            !std::mem::take(&mut self.by_name).is_empty()
        }
    }

    macro_rules! plain {
        ($($type:ty),+) => {
            $(impl Content for $type {
                fn clear(&mut self) -> bool {
                    std::mem::take(self) != Self::default()
                }
            })+
        };
    }
    plain!(bool, u64, String);

    macro_rules! never_empty {
        ($($type:ty),+) => {
            $(impl Content for $type {
                fn clear(&mut self) -> bool {
                    false
                }
            })+
        };
    }
    never_empty!(EtcdStatus, Readyz, ServingCertificate);

    /// An answer of any type.
    pub(crate) trait Damage {
        fn is_there(&self) -> bool;
        /// Replaces the answer, or the gap in its place.
        fn lose(&mut self, gap: Gap);
        /// Removes the content. Returns false if there was none.
        fn clear(&mut self) -> bool;
        fn shuffle(&mut self, below: &mut dyn FnMut(usize) -> usize);
    }

    impl<T: Content> Damage for Observed<T> {
        fn is_there(&self) -> bool {
            self.is_ok()
        }

        fn lose(&mut self, gap: Gap) {
            *self = Err(gap);
        }

        fn clear(&mut self) -> bool {
            self.as_mut().is_ok_and(Content::clear)
        }

        fn shuffle(&mut self, below: &mut dyn FnMut(usize) -> usize) {
            if let Ok(content) = self {
                content.shuffle(below);
            }
        }
    }
}
