package config

import "slices"

// settings is the table, in the order in which it is best read.
var settings = []Setting{
	{Name: "data", Default: "cleave-data", Placeholder: "directory", Help: "directory of the data, made if need be"},
	{Name: "storage", Kind: Word, Words: []string{"disk", "memory"}, Default: "disk", Help: "disk or memory"},
	{Name: "appendfsync", Kind: Word, Words: []string{"always", "everysec", "no"}, Default: "always",
		Help: "when a write is acknowledged: always (it is on disk),\neverysec (it is within a second) or no"},
	{Name: "resp-addr", Kind: Address, Default: "127.0.0.1:7379", Placeholder: "address", Help: "address for Redis clients"},
	{Name: "tls-port", Kind: Number, Max: 65535, Default: "0", Placeholder: "port",
		Help: "port for Redis clients that encrypt, on the host of\nresp-addr; 0 for none"},
	{Name: "tls-cert-file", Placeholder: "file", Help: "file of the certificate for tls-port;\na new one is used when it is there"},
	{Name: "tls-key-file", Placeholder: "file", Help: "file of its key"},
	{Name: "http-addr", Kind: Listen, Default: "127.0.0.1:7380", Placeholder: "address",
		Help: "address for operators: the HTTP API, /metrics, /readyz;\nnone for none"},
	{Name: "http-token-file", Placeholder: "file",
		Help: "file of the token that changes over HTTP need; without it\none is made and kept in http-token in the data"},
	{Name: "http-hosts", Placeholder: "names",
		Help: "names by which operators call the server, besides its\naddress and localhost; separated by commas"},
	{Name: "http-pprof", Kind: YesNo, Default: "no", Help: "serve profiles of the process, to who has\nthe token"},
	{Name: "otlp-endpoint", Kind: URL, Placeholder: "url",
		Help: "url of an OpenTelemetry collector that is told of what\ntakes long; without it OTEL_EXPORTER_OTLP_ENDPOINT counts"},
	{Name: "backup-dir", Placeholder: "directory",
		Help: "directory that backups go to; without it, beside that of\nthe data, with -backups behind its name"},
	{Name: "shutdown-delay", Kind: Number, Max: 600, Default: "0", Placeholder: "seconds",
		Help: "seconds between saying not ready and closing sockets,\nwhen the server is told to end"},
	{Name: "requirepass", Redis: true, Live: true, Secret: true, Placeholder: "password",
		Help: "password of the default user, none if empty; flags are\nseen by whoever may list processes: prefer the file"},
	{Name: "protected-mode", Kind: YesNo, Default: "yes", Redis: true, Live: true,
		Help: "without a password serve only the machine itself"},
	{Name: "maxclients", Kind: Number, Min: 1, Max: 1_000_000, Default: "10000", Help: "how many connections of clients there may be"},
	{Name: "timeout", Kind: Number, Max: 1 << 31, Default: "0", Redis: true, Live: true, Placeholder: "seconds",
		Help: "seconds after which an idle connection is ended;\n0 for never"},
	{Name: "maxmemory", Kind: Bytes, Default: "0", Redis: true, Live: true, Placeholder: "bytes",
		Help: "with storage memory: bytes beyond which writes are\nrefused, such as 2gb; 0 for no limit"},
	{Name: "stores", Kind: Number, Max: 64, Default: "0", Help: "how many logs and stores there are; 0 for what there is,\n1 at first"},
	{Name: "groups", Kind: Number, Max: 1024, Default: "0",
		Help: "how many groups execute commands; 0 for what there is,\none for each store at first"},
	{Name: "cache-mib", Kind: Number, Min: 1, Max: 1 << 24, Default: "512", Placeholder: "MiB", Help: "memory for rows, of each store, in MiB"},
	{Name: "block-cache-mib", Kind: Number, Min: 1, Max: 1 << 24, Default: "256", Placeholder: "MiB",
		Help: "with storage disk: memory for blocks of the tables, of\neach store, in MiB"},
	{Name: "slowlog-log-slower-than", Kind: Number, Min: -1, Max: 1 << 40, Default: "10000", Redis: true, Live: true,
		Help: "microseconds from which on a request is in SLOWLOG;\n-1 for none"},
	{Name: "slowlog-max-len", Kind: Number, Max: 100_000, Default: "128", Redis: true, Live: true, Help: "how many slow requests are kept"},
}

// Settings returns the table, in the order in which it is best read.
func Settings() []Setting { return slices.Clone(settings) }

// find returns a setting by its name, nil if there is none.
func find(name string) *Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}
