//! Amounts of time as ISO 8601 text: durations and periods.

/// `PT1H2M3.5S`, `P2DT3H`, with signs before each part and the whole, as Java reads it.
pub fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let (sign, rest) = signed(text);
    let rest = rest.strip_prefix(['P', 'p'])?;
    let (days, clock) = match rest.split_once(['T', 't']) {
        Some((days, clock)) if !clock.is_empty() => (days, clock),
        Some(_) => return None,
        None => (rest, ""),
    };
    if days.is_empty() && clock.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    for (part, units) in [(days, "D"), (clock, "HMS")] {
        let mut part = part;
        let mut units = units;
        while !part.is_empty() {
            let len = part.find(|c: char| c.is_ascii_alphabetic())?;
            let (number, rest) = part.split_at(len);
            let unit = rest.chars().next()?.to_ascii_uppercase();
            let (_, later) = units.split_once(unit)?;
            let per_second: i128 = match unit {
                'D' => 86_400,
                'H' => 3600,
                'M' => 60,
                _ => 1,
            };
            nanos += nanos_of(number, unit == 'S')? * per_second;
            units = later;
            part = rest.get(1..)?;
        }
    }
    let nanos = nanos * i128::from(sign);
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    Some((seconds, i32::try_from(nanos.rem_euclid(1_000_000_000)).ok()?))
}

/// A number of seconds, with a fraction where that is allowed, in nanoseconds.
fn nanos_of(number: &str, may_have_fraction: bool) -> Option<i128> {
    let (sign, digits) = signed(number);
    let (whole, fraction) = match digits.split_once(['.', ',']) {
        Some((whole, fraction)) if may_have_fraction => (whole, fraction),
        Some(_) => return None,
        None => (digits, ""),
    };
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || whole.is_empty() || 9 < fraction.len() {
        return None;
    }
    let fraction = (0..9).fold(0, |sum, i| {
        sum * 10 + fraction.as_bytes().get(i).map_or(0, |digit| i128::from(digit - b'0'))
    });
    let whole = i128::from(whole.parse::<i64>().ok()?);
    Some(i128::from(sign) * (whole * 1_000_000_000 + fraction))
}

/// `P1Y2M3W4D`: years, months, and days with the weeks.
pub fn parse_period(text: &str) -> Option<[i32; 3]> {
    let (sign, rest) = signed(text);
    let mut part = rest.strip_prefix(['P', 'p'])?;
    let mut units = "YMWD";
    let mut period = [0i32; 3];
    if part.is_empty() {
        return None;
    }
    while !part.is_empty() {
        let len = part.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, rest) = part.split_at(len);
        let unit = rest.chars().next()?.to_ascii_uppercase();
        let (_, later) = units.split_once(unit)?;
        let number = number.parse::<i32>().ok()?.checked_mul(sign.into())?;
        let [years, months, days] = &mut period;
        match unit {
            'Y' => *years = number,
            'M' => *months = number,
            'W' => *days = number.checked_mul(7)?,
            _ => *days = days.checked_add(number)?,
        }
        units = later;
        part = rest.get(1..)?;
    }
    Some(period)
}

fn signed(text: &str) -> (i8, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}
