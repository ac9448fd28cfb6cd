package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a setting may be.
type Kind uint8

// The kinds of settings.
const (
	Text    Kind = iota // any text
	Word                // one of some words
	Number              // a whole number between two
	Bytes               // a number of bytes, also with a unit: 64mb
	YesNo               // yes or no
	Address             // host:port
	Listen              // host:port, or none
	URL                 // http:// or https:// with a host, or nothing
)

// Setting is one thing that can be set.
type Setting struct {
	// Name is that of the flag and of the key in the file.
	Name string
	Kind Kind
	// Default is what holds if nobody says anything, in the form that Parse returns.
	Default string
	// Words are those of kind Word.
	Words []string
	// Min and Max bound a Number.
	Min, Max int64
	// Live means that it can change while the server runs.
	Live bool
	// Redis means that clients know it under its name, and the server is handed it so.
	Redis bool
	// Secret means that it must not be printed.
	Secret bool
	// Placeholder names the value in the help of the flag, such as file.
	Placeholder string
	// Help says what it means, in a line or two for a terminal.
	Help string
}

// Env is the name of the variable of the environment: CLEAVE_TLS_PORT for tls-port.
func (s *Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Parse reads a value as people write it, and returns it in one form.
func (s *Setting) Parse(text string) (string, error) {
	switch s.Kind {
	case Word:
		if !slices.Contains(s.Words, text) {
			return "", fmt.Errorf("want %s", either(s.Words))
		}
	case Number:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < s.Min || n > s.Max {
			return "", fmt.Errorf("want a whole number from %d to %d", s.Min, s.Max)
		}
		return strconv.FormatInt(n, 10), nil
	case Bytes:
		n, ok := parseBytes(text)
		if !ok {
			return "", fmt.Errorf("want a number of bytes, such as 1048576, 64mb or 2gb")
		}
		return strconv.FormatInt(n, 10), nil
	case YesNo:
		switch text {
		case "yes", "true":
			return "yes", nil
		case "no", "false":
			return "no", nil
		}
		return "", fmt.Errorf("want yes or no")
	case Listen:
		if text == "" || text == "none" {
			return "none", nil
		}
		if err := checkAddress(text); err != nil {
			return "", err
		}
	case URL:
		if err := checkURL(text); text != "" && err != nil {
			return "", err
		}
	case Address:
		if err := checkAddress(text); err != nil {
			return "", err
		}
	}
	return text, nil
}

// checkAddress refuses what nobody can listen on.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("want host:port, such as 127.0.0.1:7379")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("the port %q is none: want 0 to 65535", port)
	}
	return nil
}

// checkURL refuses what nobody can be reached at.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("want a URL, such as http://127.0.0.1:4318")
	}
	if u.Port() == "" {
		return nil // that of the scheme
	}
	return checkAddress(u.Host)
}

// units are those of Redis: the ones with a b are powers of two.
var units = map[string]int64{"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}

// parseBytes reads a number of bytes that is not negative.
func parseBytes(text string) (n int64, ok bool) {
	lower := strings.ToLower(text)
	digits := strings.TrimRight(lower, "kmgb")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, known := units[lower[len(digits):]]
	if err != nil || !known || n < 0 || n > (1<<63-1)/unit {
		return 0, false
	}
	return n * unit, true
}

// either joins words as a sentence has them: a, b or c.
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
