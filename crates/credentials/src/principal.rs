//! An identity in the words that a site's rules use. Only verified names are in it.

/// The names of a credential's holder. The kind of credential decides which there are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Principal {
    /// The subject of the end-entity certificate in the form `/C=…/O=…/CN=…` and its canonical
    /// spelling, without the parts that proxies append (RFC 3820 §3.4).
    pub dn: Option<String>,
    /// The issuer of a token, byte for byte as the token has it.
    pub issuer: Option<String>,
    /// The subject of a token; it means something together with the issuer only.
    pub subject: Option<String>,
    /// The groups of a token, as `/vo/group`. None when the token's scopes say what it may be used
    /// for.
    pub groups: Vec<String>,
    /// The virtual organisations that vouch for the holder, by name: those of VOMS attributes, and
    /// those that the site gave to the issuer of the token.
    pub vos: Vec<String>,
    /// Fully qualified attribute names of VOMS, the primary one first, without `/Role=NULL` and
    /// `/Capability=NULL`.
    pub fqans: Vec<String>,
    /// The local user that a mapping of the site gives to this credential.
    pub user: Option<String>,
}
