package resp

// common reads a request as nearly all are: it is there as a whole, with few arguments
// that are not long, and nothing is wrong with it. It returns how many bytes it has, or 0
// for any other, which takes the way for all of them: that finds the same, and tells what
// is wrong.
func (p *Parser) common(buf []byte, l Limits) (n int) {
	count, at := short(buf, 1)
	if count < 1 || count > keepArgs || count > l.Args {
		return 0
	}
	p.args = p.args[:0]
	total := 0
	for range count {
		if at >= len(buf) || buf[at] != '$' {
			return 0
		}
		size, start := short(buf, at+1)
		end := start + size
		if size < 0 || size > l.Bulk || end+2 > len(buf) {
			return 0
		}
		total += size
		p.args = append(p.args, buf[start:end:end])
		at = end + 2
	}
	if total > l.Total {
		return 0
	}
	return at
}

// short reads the number of a line that has at most four digits, and returns where the
// next line begins. The number is -1 if it is not such a line, or not all of it is there.
func short(buf []byte, at int) (n, next int) {
	for i := at; i < len(buf)-1 && i <= at+4; i++ {
		c := buf[i] - '0'
		if c > 9 {
			if buf[i] != '\r' || i == at || buf[at] == '0' && i > at+1 {
				return -1, 0
			}
			return n, i + 2
		}
		n = n*10 + int(c)
	}
	return -1, 0
}
