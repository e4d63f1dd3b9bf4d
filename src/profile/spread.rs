//! A number that is drawn anew for each request.

use std::fmt;

/// How a number is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// `15`: always this.
    Constant(f64),
    /// `5..15`: any in the range alike.
    Uniform { from: f64, to: f64 },
    /// `lognormal MEDIAN SIGMA`: half are below the median; sigma is the spread of the logarithm.
    LogNormal { median: f64, sigma: f64 },
    /// `exponential MEAN`.
    Exponential { mean: f64 },
    /// `3, 5, 30`: one of these alike; one that stands there twice comes twice as often.
    OneOf(Vec<f64>),
}

/// What may be drawn at most: seconds in a year, or tokens in a library.
const MOST: f64 = 1e8;

impl Spread {
    /// Reads one of the forms above. No drawn number is negative.
    pub fn parse(text: &str) -> Result<Spread, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["lognormal", median, sigma] => {
                let (median, sigma) = (number(median)?, number(sigma)?);
                if median == 0.0 || sigma > 10.0 {
                    return Err(format!("`{text}`: the median is above 0 and sigma at most 10"));
                }
                Ok(Spread::LogNormal { median, sigma })
            }
            ["exponential", mean] => Ok(Spread::Exponential { mean: number(mean)? }),
            ["lognormal", ..] => Err(format!("`{text}` is not `lognormal MEDIAN SIGMA`, such as lognormal 12 0.8")),
            ["exponential", ..] => Err(format!("`{text}` is not `exponential MEAN`, such as exponential 3")),
            _ if text.contains(',') => {
                let numbers = text.split(',').map(|part| number(part.trim())).collect::<Result<Vec<f64>, String>>()?;
                Ok(Spread::OneOf(numbers))
            }
            _ => match text.split_once("..") {
                Some((from, to)) => {
                    let (from, to) = (number(from.trim())?, number(to.trim())?);
                    if from > to {
                        return Err(format!("`{text}`: {from} is more than {to}"));
                    }
                    Ok(Spread::Uniform { from, to })
                }
                None => Ok(Spread::Constant(number(text.trim())?)),
            },
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    let forms = "15, 5..15, `3, 5, 30`, lognormal 12 0.8 or exponential 3";
    let value: f64 = text.replace('_', "").parse().map_err(|_| format!("`{text}` is not a number; write {forms}"))?;
    if (0.0..=MOST).contains(&value) { Ok(value) } else { Err(format!("{text} is outside 0..={MOST}")) }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::Constant(value) => write!(f, "{value}"),
            Spread::Uniform { from, to } => write!(f, "{from}..{to}"),
            Spread::LogNormal { median, sigma } => write!(f, "lognormal {median} {sigma}"),
            Spread::Exponential { mean } => write!(f, "exponential {mean}"),
            Spread::OneOf(values) => {
                let values: Vec<String> = values.iter().map(f64::to_string).collect();
                f.write_str(&values.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_and_shows_itself() {
        for text in ["15", "5..15", "0.5..1.5", "3, 5, 30", "lognormal 12 0.8", "exponential 3"] {
            assert_eq!(Spread::parse(text).map(|s| s.to_string()), Ok(text.to_string()));
        }
        assert_eq!(Spread::parse("1_000 .. 2_000"), Ok(Spread::Uniform { from: 1000.0, to: 2000.0 }));
    }

    #[test]
    fn what_is_none_of_them_is_refused() {
        for text in ["", "-1", "15..5", "nan", "inf", "5...15", "lognormal 12", "lognormal 0 1", "uniform 1 2", "3,,4"]
        {
            assert!(Spread::parse(text).is_err(), "{text}");
        }
    }
}
