package servercells

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// value is what is written.
var value = bytes.Repeat([]byte("v"), serverprocess.ValueBytes)

// speech is how a client asks a server, which is one of RESP or memcached.
type speech interface {
	read(dst, key []byte) []byte
	write(dst, key []byte) []byte
	// skip reads one answer, and tells errors apart.
	skip(in *bufio.Reader) error
}

// wire is a connection that sends many requests at once.
type wire struct {
	net.Conn
	speech
	in  *bufio.Reader
	out []byte
}

func dial(port string, s speech) (*wire, error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, speech: s, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

// exchange sends what is in out and reads so many answers.
func (w *wire) exchange(answers int) error {
	if _, err := w.Write(w.out); err != nil {
		return err
	}
	w.out = w.out[:0]
	for range answers {
		if err := w.skip(w.in); err != nil {
			return err
		}
	}
	return nil
}

// respSpeech is that of Redis.
type respSpeech struct{}

func (respSpeech) read(dst, key []byte) []byte { return request(dst, "GET", string(key)) }
func (respSpeech) write(dst, key []byte) []byte {
	return request(dst, "SET", string(key), string(value))
}

// request appends a request.
func request(dst []byte, words ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(words))
	for _, w := range words {
		dst = append(strconv.AppendInt(append(dst, '$'), int64(len(w)), 10), "\r\n"...)
		dst = append(append(dst, w...), "\r\n"...)
	}
	return dst
}

func (s respSpeech) skip(in *bufio.Reader) error {
	_, err := reply(in, nil)
	return err
}

// reply reads an answer, and appends the texts that are in it.
func reply(in *bufio.Reader, texts []string) ([]string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return texts, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '-':
		return texts, fmt.Errorf("the server says %q", line)
	case '$':
		if n < 0 {
			return texts, nil
		}
		text, err := in.Peek(n + 2)
		if err != nil {
			return texts, err
		}
		if texts != nil {
			texts = append(texts, string(text[:n]))
		}
		_, err = in.Discard(n + 2)
		return texts, err
	case '*':
		for range n {
			if texts, err = reply(in, texts); err != nil {
				return texts, err
			}
		}
	}
	return texts, nil
}

// plainSpeech is that of memcached.
type plainSpeech struct{}

func (plainSpeech) read(dst, key []byte) []byte { return fmt.Appendf(dst, "get %s\r\n", key) }

func (plainSpeech) write(dst, key []byte) []byte {
	return fmt.Appendf(dst, "set %s 0 0 %d\r\n%s\r\n", key, serverprocess.ValueBytes, value)
}

func (plainSpeech) skip(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(line, []byte("STORED")), bytes.HasPrefix(line, []byte("END")):
		return nil
	case !bytes.HasPrefix(line, []byte("VALUE")):
		return fmt.Errorf("the server says %q", line)
	}
	_, err = io.CopyN(io.Discard, in, serverprocess.ValueBytes+int64(len("\r\nEND\r\n")))
	return err
}
