package importer

import (
	"strings"
	"testing"
)

func TestPlacesAreReadAndShownWithoutTheirPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:7379":               "127.0.0.1:7379/0",
		"redis://h:1/3":                "h:1/3",
		"redis://user:secret@h:1":      "h:1/0",
		"rediss://:secret@[::1]:6380/": "[::1]:6380/0",
		"unix:///run/redis.sock":       "/run/redis.sock/0",
	} {
		p, err := ParseEndpoint(text)
		if err != nil || p.String() != want {
			t.Errorf("%s is %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "host", "ftp://:secret@h", "redis://:secret@h:1/x", "redis://:secret@h:%zz"} {
		if _, err := ParseEndpoint(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRatesAreThoseOfTheRunAlone(t *testing.T) {
	r := Report{Keys: 600, Total: 1000, Bytes: 3000, Seconds: 2}
	r.resumedFrom.keys, r.resumedFrom.bytes = 400, 1000
	if r.BytesPerSecond() != 1000 || r.ETASeconds() != 4 {
		t.Errorf("%v bytes a second, %v s to go", r.BytesPerSecond(), r.ETASeconds())
	}
	if none := (&Report{}); none.ETASeconds() >= 0 {
		t.Error("nobody knows how long nothing takes")
	}
}
