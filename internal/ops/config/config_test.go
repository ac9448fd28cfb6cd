package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadText reads a file of these lines.
func loadText(t *testing.T, text string, env, flags map[string]string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{File: file, Flags: flags, Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if err != nil {
		err = errorText(strings.ReplaceAll(err.Error(), file, "c.toml"))
	}
	return c, err
}

type errorText string

func (e errorText) Error() string { return string(e) }

func TestAFlagCountsMoreThanTheEnvironmentAndThatMoreThanTheFile(t *testing.T) {
	file := "timeout = 1\nmaxclients = 11\ngroups = 21\n"
	c, err := loadText(t, file, map[string]string{"CLEAVE_TIMEOUT": "2", "CLEAVE_MAXCLIENTS": "12"}, map[string]string{"timeout": "3"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"timeout": "3 --timeout", "maxclients": "12 CLEAVE_MAXCLIENTS", "stores": "0 default",
	} {
		if got := c.Text(name) + " " + c.Location(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if c.Number("groups") != 21 || !strings.HasSuffix(c.Location("groups"), "c.toml:3:1") {
		t.Errorf("groups is %d from %s", c.Number("groups"), c.Location("groups"))
	}
}

func TestMistakesAreToldAllAtOnceWithTheirPlaces(t *testing.T) {
	_, err := loadText(t, `maxclient = 5
# a comment
timeout = "soon"
  tls-port = 99999
storage = "tape"
timeout = 4
requirepass = 5
colour = "red"
maxmemory = "5 pounds"
data = ["a"]
protected-mode = "perhaps"
resp-addr = "here"
`, map[string]string{"CLEAVE_GROUPS": "many"}, nil)
	want := `c.toml:1:1: unknown setting "maxclient": did you mean "maxclients"?
c.toml:3:1: timeout: "soon": want a whole number from 0 to 2147483647
c.toml:4:3: tls-port: "99999": want a whole number from 0 to 65535
c.toml:5:1: storage: "tape": want disk or memory
c.toml:6:1: timeout is set twice: it stands at c.toml:3:1 too
c.toml:7:1: requirepass: (hidden): want a text in quotes
c.toml:8:1: unknown setting "colour": see packaging/cleave.toml, or cleave config example, for all there are
c.toml:9:1: maxmemory: "5 pounds": want a number of bytes, such as 1048576, 64mb or 2gb
c.toml:10:1: data: want one value, got array
c.toml:11:1: protected-mode: "perhaps": want yes or no
c.toml:12:1: resp-addr: "here": want host:port, such as 127.0.0.1:7379
CLEAVE_GROUPS: "many": want a whole number from 0 to 1024`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestAVariableThatIsMisspeltIsFound(t *testing.T) {
	environ := []string{
		"CLEAVE_DAAT=x", "CLEAVE_STORE=2", "CLEAVE_RESP-ADDR=here", "CLEAVE_TLS_CERTFILE=f", "CLEAVE_ADR=a", // misspelt
		"CLEAVE_DATA=x", "CLEAVE_ADDR=a", "HOME=/", "CLEAVE_", "DAAT=x", // right, or not ours
		"CLEAVE_SEED=1", "CLEAVE_PLANT=x", "CLEAVE_WRITE=1", "CLEAVE_SOAK=1", "CLEAVE_TALLY=f", "CLEAVE_PORT=tcp://10.0.0.1:7379", "CLEAVE_SERVICE_HOST=10.0.0.1", // somebody else's
	}
	want := map[string]string{
		"CLEAVE_DAAT": "CLEAVE_DATA", "CLEAVE_STORE": "CLEAVE_STORES", "CLEAVE_RESP-ADDR": "CLEAVE_RESP_ADDR",
		"CLEAVE_TLS_CERTFILE": "CLEAVE_TLS_CERT_FILE", "CLEAVE_ADR": "CLEAVE_ADDR",
	}
	found := FindMisspelt(environ, "CLEAVE_ADDR")
	for _, m := range found {
		if !strings.HasSuffix(m.Text, "did you mean "+want[m.Location]+"?") {
			t.Errorf("%v, want %q", m, want[m.Location])
		}
	}
	if len(found) != len(want) {
		t.Errorf("%v, want %v", found, want)
	}
}

func TestWhatIsNoTOMLIsToldWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"timeout = 1\nmaxclients 5\n": "c.toml:2:12: ",
		"data = \"open":               "c.toml:1:",
		"[server]\ntimeout = 1":       "c.toml:1:2: [server]: settings stand without tables",
		"a.b = 1":                     `c.toml:1:1: unknown setting "a.b"`,
		"timeout = 1 2":               "c.toml:1:",
		"timeout =":                   "c.toml:1:",
		"appendfsync = always\n":      `c.toml:1:15: incomplete number: write text in quotes, such as "always"`,
	} {
		if _, err := loadText(t, text, nil, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestSettingsThatDoNotGoTogetherAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"tls-port = 6380":                     "c.toml:1:1: tls-port needs tls-cert-file\nc.toml:1:1: tls-port needs tls-key-file",
		"maxmemory = '1gb'":                   "c.toml:1:1: maxmemory is for storage memory: say how much memory a store on disk has with cache-mib and block-cache-mib",
		"\ntls-key-file = \"k\"":              "c.toml:2:1: tls-key-file is for tls-port: say where to listen",
		"port = 0":                            "c.toml:1:1: port is 0 and there is no tls-port: say where Redis clients connect",
		"port = 1\nresp-addr = 'h:2'":         "c.toml:1:1: port is 1, and resp-addr at c.toml:2:1 is h:2: leave one of them out",
		"bind = 'g'\nresp-addr = 'h:2'":       "c.toml:1:1: bind is g, and resp-addr at c.toml:2:1 is h:2: leave one of them out",
		"port = 0\nresp-addr = '127.0.0.1:0'": "c.toml:1:1: port is 0, and resp-addr at c.toml:2:1 is 127.0.0.1:0: leave one of them out",
		"bind = '127.0.0.1 ::1'":              "c.toml:1:1: bind: \"127.0.0.1 ::1\": want one address without a port, such as 0.0.0.0, or * for all",
		"bind = '127.0.0.1:7'":                "c.toml:1:1: bind: \"127.0.0.1:7\": want one address without a port, such as 0.0.0.0, or * for all",
		"http-tls-cert-file = 'c'":            "c.toml:1:1: http-tls-cert-file needs http-tls-key-file",
		"http-addr = 'none'\nhttp-tls-cert-file = 'c'\nhttp-tls-key-file = 'k'": "c.toml:2:1: http-tls-cert-file is for http-addr: say where to listen\nc.toml:3:1: http-tls-key-file is for http-addr: say where to listen",
	} {
		if _, err := loadText(t, text, nil, nil); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// What counts more says its part of the address, and leaves the rest to the others.
func TestAddress_OfSeveralSources_IsJoined(t *testing.T) {
	type m = map[string]string
	for _, c := range []struct {
		what, file string
		env, flags m
		want       string
	}{
		{"nothing", "", nil, nil, "127.0.0.1:7379"},
		{"a port", "", nil, m{"port": "6380"}, "127.0.0.1:6380"},
		{"an address", "", nil, m{"bind": "0.0.0.0"}, "0.0.0.0:7379"},
		{"all addresses", "bind = '*'", nil, nil, ":7379"},
		{"version 6", "bind = '::1'\nport = 1", nil, nil, "[::1]:1"},
		{"both in one", "resp-addr = 'h:1'", nil, nil, "h:1"},
		{"both and the same", "resp-addr = 'h:1'\nport = 1\nbind = 'h'", nil, nil, "h:1"},
		{"a flag over the environment", "", m{"CLEAVE_RESP_ADDR": "0.0.0.0:7379"}, m{"port": "6380"}, "0.0.0.0:6380"},
		{"a flag over the file", "port = 1\nbind = 'h'", nil, m{"resp-addr": "g:2"}, "g:2"},
		{"any port", "port = 1", nil, m{"resp-addr": "127.0.0.1:0"}, "127.0.0.1:0"},
		{"no port", "tls-port = 1\ntls-cert-file = 'c'\ntls-key-file = 'k'", nil, m{"port": "0"}, ""},
		{"a variable of Kubernetes", "", m{"CLEAVE_PORT": "tcp://10.0.0.1:7379"}, nil, "127.0.0.1:7379"},
	} {
		got, err := loadText(t, c.file, c.env, c.flags)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got.RespAddr() != c.want {
			t.Errorf("%s: %q, want %q", c.what, got.RespAddr(), c.want)
		}
	}
}

func TestTheSameValueIsReadFromEachForm(t *testing.T) {
	for text, want := range map[string]string{
		"maxmemory = 2048": "2048", `maxmemory = "2kb"`: "2048", "maxmemory = 0x800": "2048", "maxmemory = 2_048": "2048",
		"protected-mode = false": "no", `protected-mode = "no"`: "no", "requirepass = 'p'": "p", "slowlog-log-slower-than = -1": "-1",
	} {
		c, err := loadText(t, text+"\nstorage = 'memory'", nil, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if name, _, _ := strings.Cut(text, " "); c.Text(name) != want {
			t.Errorf("%s is %s, want %s", text, c.Text(name), want)
		}
	}
}

func TestChangesTellWhatWaitsForARestart(t *testing.T) {
	before, err := loadText(t, "timeout = 1\ngroups = 2\nmaxmemory = '1mb'\nstorage = 'memory'", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := loadText(t, "timeout = 5\ngroups = 3\nmaxmemory = 1048576\nstorage = 'memory'", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	live, restart := before.Diff(after)
	if len(live) != 1 || live["timeout"] != "5" || len(restart) != 1 || restart[0] != "groups" {
		t.Errorf("live %v, restart %v", live, restart)
	}
}

func TestEveryDefaultIsAValueOfItsSetting(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Settings() {
		if got, err := s.Parse(s.Default); got != s.Default || err != nil {
			t.Errorf("%s: the default %q is %q, %v", s.Name, s.Default, got, err)
		}
		if seen[s.Name] || s.Help == "" || strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s: twice %v, help %q", s.Name, seen[s.Name], s.Help)
		}
		seen[s.Name] = true
	}
}

func TestTheExampleSetsEverySettingToItsDefault(t *testing.T) {
	c, err := loadText(t, ExampleFile(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Settings() {
		if c.Text(s.Name) != s.Default || c.Location(s.Name) == "default" {
			t.Errorf("%s is %q from %s", s.Name, c.Text(s.Name), c.Location(s.Name))
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(ExampleFile())
	f.Add("a = [1, {b = 2}]\n[[x]]\n'' = 1")
	f.Fuzz(func(t *testing.T, text string) {
		var wrong Mistakes
		values := parseFile("f", []byte(text), &wrong)
		for name, v := range values {
			s := findSetting(name)
			if s == nil {
				t.Fatalf("%q is no setting", name)
			}
			if _, err := s.Parse(v.text); err != nil && len(wrong) == 0 {
				t.Fatalf("%s = %q was taken: %v", name, v.text, err)
			}
		}
	})
}
