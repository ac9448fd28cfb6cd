package key_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/key"
)

func ExampleEncode() {
	a, _ := key.Encode(key.Tuple{"orders", 9, "open"})
	b, _ := key.Encode(key.Tuple{"orders", 10, "open"})
	fmt.Printf("%x\n%x\n", a, b)
	fmt.Println("9 before 10:", bytes.Compare(a, b) < 0)
	// Output:
	// 026f7264657273001509026f70656e00
	// 026f726465727300150a026f70656e00
	// 9 before 10: true
}

func ExampleDecode() {
	b, _ := key.Encode(key.Tuple{"eu", -1, nil, key.Tuple{1.5, []byte{0}}})
	t, err := key.Decode(b)
	fmt.Println(t, err)

	_, err = key.Decode([]byte("\x02eu\x00\x16\x00\x01"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, key.ErrNotCanonical))
	// Output:
	// ("eu", -1, nil, (1.5, b"\x00")) <nil>
	// key: malformed tuple: byte 5: integer is not in its shortest form
	// true
}

// Appending typed values one by one needs no Tuple, and reading them one by one
// needs no allocation.
func ExampleReader() {
	buf := make([]byte, 0, 64)
	buf = key.AppendString(buf, "eu")
	buf = key.AppendInt(buf, 42)

	r := key.NewReader(buf)
	for r.Next() {
		e := r.Element()
		switch e.Kind() {
		case key.KindString:
			s, _ := e.Text()
			fmt.Println("text", s)
		case key.KindInt:
			i, _ := e.Int()
			fmt.Println("number", i)
		}
	}
	fmt.Println("error", r.Err())
	// Output:
	// text eu
	// number 42
	// error <nil>
}

func ExampleTupleRange() {
	orders, _ := key.TupleRange(key.Tuple{"orders"})
	for _, t := range []key.Tuple{{"orders"}, {"orders", 7}, {"orders\x00"}} {
		b, _ := key.Encode(t)
		fmt.Println(t, orders.Contains(b))
	}
	// Output:
	// ("orders") false
	// ("orders", 7) true
	// ("orders\x00") false
}
