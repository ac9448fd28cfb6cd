package sqlquery

import "strings"

// token is a word, a value or an operator of a statement.
type token struct {
	text    string
	quoted  bool // an identifier in quotes
	isValue bool // a parameter, number or string
}

// word returns a keyword in lower case; empty if the token cannot be one.
func (t token) word() string {
	if t.quoted || t.isValue {
		return ""
	}
	return strings.ToLower(t.text)
}

// name returns what an identifier names.
func (t token) name() string {
	if t.quoted {
		return t.text
	}
	return strings.ToLower(t.text)
}

func (t token) isName() bool {
	return t.quoted || !t.isValue && t.text != "" && isNameByte(t.text[0])
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// splitTokens cuts a statement. Comments are left out.
func splitTokens(text string) (tokens []token) {
	for i := 0; i < len(text); {
		rest := text[i:]
		switch c := text[i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(rest, "--"):
			i += lengthUntil(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			i += lengthUntil(rest, "*/")
		case c == '"':
			n := quotedLength(rest)
			tokens = append(tokens, token{text: strings.ReplaceAll(strings.Trim(rest[:n], `"`), `""`, `"`), quoted: true})
			i += n
		case c == '\'':
			n := quotedLength(rest)
			tokens = append(tokens, token{text: rest[:n], isValue: true})
			i += n
		case c == '$' || isDigit(c):
			n := 1
			for n < len(rest) && (isDigit(rest[n]) || rest[n] == '.') {
				n++
			}
			tokens = append(tokens, token{text: rest[:n], isValue: true})
			i += n
		case isNameByte(c):
			n := 1
			for n < len(rest) && (isNameByte(rest[n]) || isDigit(rest[n]) || rest[n] == '$') {
				n++
			}
			tokens = append(tokens, token{text: rest[:n]})
			i += n
		default:
			n := 1
			for strings.IndexByte("<>=!~|&", c) >= 0 && n < len(rest) && strings.IndexByte("<>=!~|&", rest[n]) >= 0 {
				n++
			}
			tokens = append(tokens, token{text: rest[:n]})
			i += n
		}
	}
	return tokens
}

// lengthUntil returns how long text is up to an end and with it.
func lengthUntil(text, end string) int {
	if i := strings.Index(text, end); i >= 0 {
		return i + len(end)
	}
	return len(text)
}

// quotedLength returns how long the quoted text is that begins here. A doubled quote does not end it.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] != text[0] {
			continue
		}
		if i+1 == len(text) || text[i+1] != text[0] {
			return i + 1
		}
		i++
	}
	return len(text)
}
