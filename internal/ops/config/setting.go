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
	Enum                // one of some words
	Number              // a whole number between two
	Bytes               // a number of bytes, also with a unit: 64mb
	YesNo               // yes or no
	Address             // host:port, or nothing if that is the default
	Host                // an address or a name without a port, or *
	Listen              // host:port, or none
	URL                 // http:// or https:// with a host, or nothing
)

// Setting is one thing that can be set.
type Setting struct {
	// Name is that of the flag and of the key in the file.
	Name string
	Kind Kind
	// Default is the value of a setting that is not given, in the form that Parse returns.
	Default string
	// EnumValues are those of kind Word.
	EnumValues []string
	// Min and Max bound a Number.
	Min, Max int64
	// Live means that it can change while the server runs.
	Live bool
	// Redis means that clients know it under its name, and the server is handed it so.
	Redis bool
	// NoEnv means that no variable sets it.
	NoEnv bool
	// Secret means that it must not be printed.
	Secret bool
	// Placeholder names the value in the help of the flag, such as file.
	Placeholder string
	// Unit is what the value counts, empty if the help says it.
	Unit string
	// Help is what it means, in a line or two for a terminal.
	Help string
}

// EnvName is the name of the variable of the environment: CLEAVE_TLS_PORT for tls-port.
func (s *Setting) EnvName() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Parse reads a value as people write it, and returns it in one form.
func (s *Setting) Parse(text string) (string, error) {
	switch s.Kind {
	case Enum:
		if !slices.Contains(s.EnumValues, text) {
			return "", fmt.Errorf("want %s", joinWithOr(s.EnumValues))
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
		if err := checkAddress(text); err != nil && (text != "" || s.Default != "") {
			return "", err
		}
	case Host:
		if text == "" || strings.ContainsAny(text, " ,/[]") || strings.Contains(text, ":") && net.ParseIP(text) == nil {
			return "", fmt.Errorf("want one address without a port, such as 0.0.0.0, or * for all")
		}
	}
	return text, nil
}

// checkAddress refuses an address that no server can listen on.
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

// checkURL refuses a URL that no client can reach.
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

// byteUnits are those of Redis: the ones with a b are powers of two.
var byteUnits = map[string]int64{"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}

// parseBytes reads a number of bytes that is not negative.
func parseBytes(text string) (n int64, ok bool) {
	lower := strings.ToLower(text)
	digits := strings.TrimRight(lower, "kmgb")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, known := byteUnits[lower[len(digits):]]
	if err != nil || !known || n < 0 || n > (1<<63-1)/unit {
		return 0, false
	}
	return n * unit, true
}

// joinWithOr joins words as a sentence has them: a, b or c.
func joinWithOr(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// settings is the table, in the order in which it is best read.
var settings = []Setting{
	{Name: "data", Default: "cleave-data", Placeholder: "directory", Help: "directory of the data, made if need be"},
	{Name: "storage", Kind: Enum, EnumValues: []string{"disk", "memory"}, Default: "disk", Help: "disk or memory"},
	{Name: "appendfsync", Kind: Enum, EnumValues: []string{"always", "everysec", "no"}, Default: "always",
		Help: "when a write is acknowledged: always (it is on disk),\neverysec (it is within a second) or no"},
	{Name: "bind", Kind: Host, Default: "127.0.0.1", Placeholder: "address", Help: "address for Redis clients, without a port; * for all\nthat the machine has"},
	{Name: "port", Kind: Number, Max: 65535, Default: "7379", NoEnv: true,
		Help: "port for Redis clients; 0 for none but tls-port"},
	{Name: "resp-addr", Kind: Address, Placeholder: "host:port", Help: "host:port in place of bind and port; with port 0 one\nthat is free"},
	{Name: "tls-port", Kind: Number, Max: 65535, Default: "0", Placeholder: "port",
		Help: "port for Redis clients that encrypt, on the same\naddress; 0 for none"},
	{Name: "tls-cert-file", Placeholder: "file", Help: "file of the certificate for tls-port;\na new one is used when it is there"},
	{Name: "tls-key-file", Placeholder: "file", Help: "file of its key"},
	{Name: "http-addr", Kind: Listen, Default: "127.0.0.1:7380", Placeholder: "address",
		Help: "address for operators: the HTTP API, /metrics, /readyz;\nnone for none"},
	{Name: "http-tls-cert-file", Placeholder: "file", Help: "file of a certificate: operators then use https://;\na new one is used when it is there"},
	{Name: "http-tls-key-file", Placeholder: "file", Help: "file of its key"},
	{Name: "http-token-file", Placeholder: "file",
		Help: "file of the token that changes over HTTP need; without it\none is made and kept in http-token in the data"},
	{Name: "http-read-token-file", Placeholder: "file",
		Help: "file of a second token, for what reads and never for\nwhat changes: such as scrapers of /metrics"},
	{Name: "http-hosts", Placeholder: "names",
		Help: "names by which operators call the server, besides its\naddress and localhost; separated by commas"},
	{Name: "http-pprof", Kind: YesNo, Default: "no", Help: "serve profiles of the process, to\nclients with the token"},
	{Name: "loglevel", Kind: Enum, EnumValues: []string{"debug", "verbose", "notice", "warning"}, Default: "notice", Redis: true, Live: true,
		Help: "the least of what is logged: debug, verbose, notice\nor warning"},
	{Name: "logfile", Placeholder: "file", Help: "file of the log, opened anew on SIGHUP; without it the\nlog goes to stderr"},
	{Name: "log-format", Kind: Enum, EnumValues: []string{"text", "json"}, Default: "text", Help: "text or json"},
	{Name: "otlp-endpoint", Kind: URL, Placeholder: "url",
		Help: "url of an OpenTelemetry collector that is told of what\ntakes long; without it OTEL_EXPORTER_OTLP_ENDPOINT counts"},
	{Name: "backup-dir", Placeholder: "directory",
		Help: "directory that backups go to; without it, beside that of\nthe data, with -backups behind its name"},
	{Name: "shutdown-delay", Kind: Number, Max: 600, Default: "0", Placeholder: "seconds", Unit: "seconds",
		Help: "seconds between saying not ready and closing sockets,\nwhen the server is told to end"},
	{Name: "requirepass", Redis: true, Live: true, Secret: true, Placeholder: "password",
		Help: "password of the default user, none if empty; flags are\nseen in lists of processes: prefer the file"},
	{Name: "protected-mode", Kind: YesNo, Default: "yes", Redis: true, Live: true,
		Help: "without a password serve only the machine itself"},
	{Name: "maxclients", Kind: Number, Min: 1, Max: 1_000_000, Default: "10000", Help: "how many connections of clients there may be"},
	{Name: "io-threads", Kind: Number, Max: 1024, Default: "0", Help: "how many loops serve connections;\n0 for as many as the load needs,\nat most one for each processor"},
	{Name: "cluster-enabled", Kind: YesNo, Default: "no",
		Help: "report a cluster of one node, for clients of Redis Cluster\nthat refuse a server which is none: yes or no"},
	{Name: "timeout", Kind: Number, Max: 1<<31 - 1, Default: "0", Redis: true, Live: true, Placeholder: "seconds", Unit: "seconds",
		Help: "seconds after which an idle connection is ended;\n0 for never"},
	{Name: "maxmemory", Kind: Bytes, Default: "0", Redis: true, Live: true, Placeholder: "bytes", Unit: "bytes",
		Help: "with storage memory: bytes beyond which writes are\nrefused, such as 2gb; 0 for three fifths of what the process\nmay take, less 128 MiB"},
	{Name: "stores", Kind: Number, Max: 64, Default: "0", Help: "how many logs and stores a new directory gets; 0 for one;\nlater the same number, or 0"},
	{Name: "groups", Kind: Number, Max: 1024, Default: "0",
		Help: "how many groups execute commands in a new directory;\n0 for one for each processor; cleave group resize changes it"},
	{Name: "cache-mib", Kind: Number, Max: 1 << 24, Default: "0", Placeholder: "MiB", Unit: "MiB",
		Help: "memory for rows, of each store, in MiB; 0 for a quarter of\nwhat the process may take beyond 256 MiB, divided by stores,\nat most 512"},
	{Name: "block-cache-mib", Kind: Number, Max: 1 << 24, Default: "0", Placeholder: "MiB", Unit: "MiB",
		Help: "with storage disk: memory for blocks of the tables, of\neach store, in MiB; 0 for half of what is for rows"},
	{Name: "heat", Kind: Enum, EnumValues: []string{"on", "off"}, Default: "on",
		Help: "find hot keys and ranges by a sample of requests:\non or off"},
	{Name: "slowlog-log-slower-than", Kind: Number, Min: -1, Max: 1 << 40, Default: "10000", Redis: true, Live: true, Unit: "microseconds",
		Help: "microseconds from which on a request is in SLOWLOG;\n-1 for none"},
	{Name: "slowlog-max-len", Kind: Number, Max: 100_000, Default: "128", Redis: true, Live: true, Help: "how many slow requests are kept"},
}

// Settings returns the table, in the order in which it is best read.
func Settings() []Setting { return slices.Clone(settings) }

// findSetting returns a setting by its name, nil if there is none.
func findSetting(name string) *Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}
