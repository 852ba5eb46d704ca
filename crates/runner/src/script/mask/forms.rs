//! The ways in which a secret may have been written down by the time it is seen.

/// A value shorter than this is looked for only as it is: its other forms would be found where it is not.
const LEAST_ENCODED: usize = 8;
/// A line of a secret shorter than this says too little to be one.
const LEAST_LINE: usize = 8;
/// The least that is looked for.
const LEAST: usize = 4;

/// Every form of a value that is looked for.
pub(super) fn of(value: &str) -> Vec<Vec<u8>> {
    let mut forms = plain(value);
    if value.len() >= LEAST_ENCODED {
        let quoted = |kept| quoted(value, kept);
        let strict = quoted("-._~");
        // strictly, as Python keeps slashes, as JavaScript keeps some more, as forms have it
        let others = [quoted("-._~/"), quoted("-._~!'()*"), strict.replace("%20", "+"), quoted("-._*").replace("%20", "+")];
        forms.extend(others.map(String::into_bytes));
        forms.push(strict.into_bytes());
        for url in [false, true] {
            forms.extend((0..3).map(|offset| inside_base64(value.as_bytes(), offset, url)));
        }
    }
    let lines: Vec<&str> = value.lines().map(str::trim).filter(|line| line.len() >= LEAST_LINE).collect();
    if value.lines().count() > 1 {
        forms.extend(lines.into_iter().flat_map(plain));
    }
    forms.retain(|form| form.len() >= LEAST);
    forms
}

/// As it is, and as it stands in JSON, with and without characters beyond ASCII.
fn plain(value: &str) -> Vec<Vec<u8>> {
    let json = serde_json::Value::from(value).to_string();
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default().to_owned();
    vec![value.as_bytes().to_vec(), ascii(&json).into_bytes(), json.into_bytes()]
}

/// JSON's text with `\uXXXX` for everything that is not ASCII.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for each in json.chars() {
        if each.is_ascii() {
            text.push(each);
        } else {
            each.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

/// As it stands in a URL whose writer keeps these characters besides letters and digits.
fn quoted(value: &str, kept: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// What is sure to stand in the base64 of anything that has the bytes at `offset` modulo 3: the characters that depend on
/// nothing else.
fn inside_base64(bytes: &[u8], offset: usize, url: bool) -> Vec<u8> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let first = (offset * 8).div_ceil(6);
    let whole = padded.len() * 8 / 6;
    base64(&padded, url).into_bytes().get(first..whole).unwrap_or_default().to_vec()
}

/// Base64 without padding.
pub(super) fn base64(bytes: &[u8], url: bool) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |six: u32| match (six as usize, url) {
        (62, false) => '+',
        (63, false) => '/',
        (62, true) => '-',
        (63, true) => '_',
        (six, _) => char::from(LETTERS[six]),
    };
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..=chunk.len()).for_each(|place| text.push(letter(all >> (18 - 6 * place) & 63)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_base64() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes(), false));
        assert_eq!(texts, ["", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"]);
        assert_eq!((base64(&[0xfb, 0xff], false), base64(&[0xfb, 0xff], true)), ("+/8".to_owned(), "-_8".to_owned()));
    }

    #[test]
    fn short_values_have_no_other_forms() {
        assert_eq!(of("abcd"), [b"abcd", b"abcd", b"abcd"]);
        assert!(of("abc").is_empty());
    }
}
