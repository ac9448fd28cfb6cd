package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestTheTextOfAKey(t *testing.T) {
	for key, text := range map[string]string{
		"":             "",
		"user:1":       "user:1",
		`a\b`:          `a\\b`,
		"\x00\xff\n":   `\x00\xff\x0a`,
		"ü":            `\xc3\xbc`,
		"\x1b[2J":      `\x1b[2J`,
		"<b>&\"'":      "<b>&\"'",
		"\u202efoo":    `\xe2\x80\xaefoo`,
		`\x41`:         `\\x41`,
		"with a space": "with a space",
	} {
		if got := Key(key).String(); got != text {
			t.Errorf("%q is written %s, not %s", key, got, text)
		}
		if got, err := ParseKey(text); err != nil || string(got) != key {
			t.Errorf("%s is read %q, not %q, %v", text, got, key, err)
		}
	}
	if k, err := ParseKey("ü"); string(k) != "ü" || err != nil {
		t.Errorf("other UTF-8: %q, %v", k, err)
	}
	for _, bad := range []string{`\`, `a\`, `\n`, `\x`, `\x1`, `\xg0`, `\u0041`, `\x+1`} {
		if k, err := ParseKey(bad); err == nil || !strings.Contains(err.Error(), `\\`) {
			t.Errorf("%s is read %q, %v", bad, k, err)
		}
	}
}

func FuzzAKeyMeansOneText(f *testing.F) {
	f.Add([]byte("user:1"))
	f.Add([]byte(`a\x00b\\` + "\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := json.Marshal(Key(b))
		if err != nil {
			t.Fatal(err)
		}
		var back Key
		if err := json.Unmarshal(text, &back); err != nil || !bytes.Equal(back, b) {
			t.Fatalf("%q is written %s, which is read %q, %v", b, text, back, err)
		}
		if k, err := ParseKey(string(b)); err == nil {
			if again, err := ParseKey(k.String()); err != nil || !bytes.Equal(again, k) {
				t.Fatalf("%q is read %q, and then %q, %v", b, k, again, err)
			}
		}
	})
}
