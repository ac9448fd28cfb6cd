// Package glob answers one question: does a name fit a pattern, by the rules of Redis?
//
// A pattern is a text with * for any bytes, ? for one, [a-z] for one of some, [^a-z] for
// one of the others, and \ before a byte that stands for itself. What is not closed is
// closed at the end of the pattern, and a range may be written backwards.
//
// # Limits
//
// Matching takes at most as many steps as the pattern has bytes, times those of the
// name: a pattern with many stars costs no more than that.
package glob

// Match reports whether a name fits a pattern.
func Match(pattern, name []byte) bool {
	// star is where to go on in the pattern, and back in the name, if what follows the
	// last star does not fit: with one byte more for the star. Only the last one needs
	// to be tried again.
	star, back := -1, 0
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, back = p+1, n
				p++
				continue
			}
			if next, ok := matchByte(pattern, p, name[n]); ok {
				p, n = next, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		back++
		p, n = star, back
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte reports whether a byte fits the pattern at a place, and where the pattern goes on.
func matchByte(pattern []byte, p int, c byte) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// matchClass is one for what is between brackets.
func matchClass(pattern []byte, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for {
		switch {
		case p >= len(pattern):
			return p, ok != not
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == c
		case pattern[p] == ']':
			return p + 1, ok != not
		case p+2 < len(pattern) && pattern[p+1] == '-':
			lo, hi := pattern[p], pattern[p+2]
			ok = ok || min(lo, hi) <= c && c <= max(lo, hi)
			p += 2
		default:
			ok = ok || pattern[p] == c
		}
		p++
	}
}

// Literal returns the name that a pattern stands for if it stands for one alone.
func Literal(pattern []byte) (name []byte, ok bool) {
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*', '?', '[':
			return nil, false
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			name = append(name, pattern[i])
		default:
			name = append(name, c)
		}
	}
	return name, true
}
