//! Whether a text is the code of a currency, as Java's `Currency.getInstance` reads it.
//!
//! Of a code that it does not know, Java's reader of Hessian makes null. What Java knows is the
//! list of ISO 4217 as it was at its time, with the codes that were withdrawn.

/// The codes of Java 17 and 25, sorted. ISO 4217 adds about one a year.
const CODES: &str = "\
    ADP AED AFA AFN ALL AMD ANG AOA ARS ATS AUD AWG AYM AZM AZN BAM BBD BDT BEF BGL BGN BHD \
    BIF BMD BND BOB BOV BRL BSD BTN BWP BYB BYN BYR BZD CAD CDF CHE CHF CHW CLF CLP CNY COP \
    COU CRC CSD CUC CUP CVE CYP CZK DEM DJF DKK DOP DZD EEK EGP ERN ESP ETB EUR FIM FJD FKP \
    FRF GBP GEL GHC GHS GIP GMD GNF GRD GTQ GWP GYD HKD HNL HRK HTG HUF IDR IEP ILS INR IQD \
    IRR ISK ITL JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LTL LUF \
    LVL LYD MAD MDL MGA MGF MKD MMK MNT MOP MRO MRU MTL MUR MVR MWK MXN MXV MYR MZM MZN NAD \
    NGN NIO NLG NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PTE PYG QAR ROL RON RSD RUB RUR RWF \
    SAR SBD SCR SDD SDG SEK SGD SHP SIT SKK SLE SLL SOS SRD SRG SSP STD STN SVC SYP SZL THB \
    TJS TMM TMT TND TOP TPE TRL TRY TTD TWD TZS UAH UGX USD USN USS UYI UYU UZS VEB VED VEF \
    VES VND VUV WST XAD XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XFO XFU XOF XPD XPF XPT XSU \
    XTS XUA XXX YER YUM ZAR ZMK ZMW ZWD ZWG ZWL ZWN ZWR";

/// Whether Java knows a currency of this code.
#[must_use]
pub fn is_currency_code(text: &str) -> bool {
    CODES.split(' ').any(|code| code == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_that_java_knows() {
        for code in ["EUR", "CNY", "XXX", "DEM", "ZWG"] {
            assert!(is_currency_code(code), "{code}");
        }
        for text in ["", "ZZZ", "AAA", "eur", "EURO", "EU", "EUR FIM"] {
            assert!(!is_currency_code(text), "{text}");
        }
        let codes: Vec<&str> = CODES.split(' ').collect();
        let is_code = |code: &&str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase());
        assert!(codes.is_sorted() && codes.iter().all(is_code));
    }
}
