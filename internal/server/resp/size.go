package resp

// RequestBytes is how many bytes a request of some arguments has on the wire, if it is no line.
func RequestBytes(args [][]byte) int {
	n := len("*\r\n") + digits(len(args))
	for _, a := range args {
		n += BulkBytes(len(a))
	}
	return n
}

// BulkBytes is how many bytes a string of so many bytes has on the wire.
func BulkBytes(n int) int { return len("$\r\n\r\n") + digits(n) + n }

// digits is how many digits a number has that is not negative.
func digits(n int) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}
