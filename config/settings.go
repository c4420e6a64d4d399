package config

import (
	"regexp"
	"strings"
	"time"

	"shardway/internal/address"
	"shardway/internal/bounds"
	"shardway/keysource"
)

// setting is one row of the table: all that is known about a key.
type setting struct {
	name    string              // with dashes
	def     []string            // the default as somebody would write it; empty: none
	shown   string              // the default in words, where def does not tell it
	metavar string              // what stands for the value in the help; empty: a switch
	many    bool                // a list: the flag may be repeated
	group   string              // heading in the help
	help    string              // one line
	bind    func(*Config) value // its place
	flagged bool                // no YAML key: flag and environment only
	live    bool                // a running node takes a new value over
}

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func (s setting) yaml() string { return strings.ReplaceAll(s.name, "-", "_") }

// row keeps the table below in columns.
func row(name, metavar, def, help string, bind func(*Config) value) setting {
	s := setting{name: name, metavar: metavar, help: help, bind: bind}
	if def != "" {
		s.def = []string{def}
	}
	return s
}

func (s setting) list() setting            { s.many = true; return s }
func (s setting) inWords(d string) setting { s.shown = d; return s }
func (s setting) withoutYAML() setting     { s.flagged = true; return s }
func (s setting) reloads() setting         { s.live = true; return s }
func grouped(g string, rows ...setting) []setting {
	for i := range rows {
		rows[i].group = g
	}
	return rows
}

// settings returns the table. Its order is that of the help and of the problems.
func settings() []setting {
	var all []setting
	all = append(all, nodeSettings()...)
	all = append(all, addressSettings()...)
	all = append(all, clusterSettings()...)
	all = append(all, requestSettings()...)
	all = append(all, timingSettings()...)
	all = append(all, queueSettings()...)
	all = append(all, limitSettings()...)
	all = append(all, securitySettings()...)
	all = append(all, adminSettings()...)
	return append(all, operationSettings()...)
}

func nodeSettings() []setting {
	return grouped("Node",
		row("config", "FILE", "", "YAML file with the keys below (dashes become underscores)",
			func(c *Config) value { return text{p: &c.File} }).withoutYAML(),
		row("node", "ID", "", "this node's id",
			func(c *Config) value { return text{&c.Node, checkID} }).inWords("kept in the data directory"),
		row("data", "DIR", "./data", "directory of the Raft log, the snapshots and the identity",
			func(c *Config) value { return text{p: &c.Data} }),
		row("upstream", "URL", "", "the app, http://host:port or unix:/path",
			func(c *Config) value { return text{&c.Upstream, checkUpstream} }).inWords("none: a gateway"),
		row("upstream-conns", "N", "1024", "at most so many connections at once to the app",
			func(c *Config) value { return number{p: &c.UpstreamConns, lo: 1, hi: 65535} }),
		row("shard-conns", "N", "half", "at most so many of them for one shard; beyond it its requests wait",
			func(c *Config) value { return number{p: &c.ShardConns, lo: 1, hi: 65535, zero: "half"} }).inWords("half of upstream-conns"),
		row("streams", "N", "4096", "at most so many further ones for upgraded connections, event streams and long answers",
			func(c *Config) value { return number{p: &c.Streams, lo: 1, hi: 65535} }),
		row("health", "PATH", "", "path of the app's health check",
			func(c *Config) value { return text{&c.Health, checkPath} }).inWords("connect only"),
		row("weight", "N", "1", "this node's share of the shards, beside the other nodes' weights",
			func(c *Config) value { return number{p: &c.Weight, lo: 1, hi: 1000} }),
		row("zone", "NAME", "", "where this node stands, as shown in /status",
			func(c *Config) value { return text{&c.Zone, checkID} }),
	)
}

func addressSettings() []setting {
	return grouped("Addresses",
		row("listen", "ADDR", ":8080", "app traffic",
			func(c *Config) value { return text{&c.Listen, checkBind} }),
		row("admin", "ADDR", "127.0.0.1:8081", "status, metrics and commands",
			func(c *Config) value { return text{&c.Admin, checkBind} }),
		row("gossip", "ADDR", "127.0.0.1:7946", "Serf, TCP and UDP",
			func(c *Config) value { return text{&c.Gossip, checkBind} }).inWords("127.0.0.1:7946, with a secret :7946"),
		row("gossip-advertise", "ADDR", "", "where the others reach --gossip",
			func(c *Config) value { return text{&c.GossipAdvertise, checkReach} }).inWords("the address on the way to the first --join"),
		row("peer", "ADDR", "127.0.0.1:7947", "Raft, heartbeats and forwarded requests",
			func(c *Config) value { return text{&c.Peer, checkBind} }).inWords("127.0.0.1:7947, with a secret :7947"),
		row("peer-advertise", "ADDR", "", "where the others reach --peer",
			func(c *Config) value { return text{&c.PeerAdvertise, checkReach} }).inWords("the address on the way to the first --join"),
		row("endpoint", "NAME=ADDR", "", "a further address that this node announces",
			func(c *Config) value { return endpoints{&c.Endpoints} }).list(),
		row("probes", "ADDR", "", "/livez and /readyz on an address of their own",
			func(c *Config) value { return text{&c.Probes, checkBind} }),
		row("probe-path", "PATH", "", "a path on the app port that the node answers itself",
			func(c *Config) value { return text{&c.ProbePath, checkPath} }).reloads(),
		row("tls-cert", "FILE", "", "app traffic by TLS: the certificate and what leads to its authority, PEM",
			func(c *Config) value { return text{p: &c.TLSCert} }).reloads(),
		row("tls-key", "FILE", "", "its private key, PEM; both files are read again when they change",
			func(c *Config) value { return text{p: &c.TLSKey} }).reloads(),
	)
}

func clusterSettings() []setting {
	return grouped("Cluster",
		row("join", "ADDR", "", "gossip address or DNS name of the cluster",
			func(c *Config) value { return list{&c.Join, checkJoin} }).list(),
		row("expect", "N", "1", "start the cluster when so many nodes are there",
			func(c *Config) value { return number{p: &c.Expect, lo: 1, hi: maxVoters} }),
		row("shards", "N", "1024", "number of shards, fixed when the cluster is born",
			func(c *Config) value { return number{p: &c.Shards, lo: 1, hi: 65536} }),
		row("voters", "N", "5", "at most so many members vote",
			func(c *Config) value { return number{p: &c.Voters, lo: 1, hi: maxVoters} }),
		row("dead-server-after", "DURATION", "off", "take a dead server out after this time; a spare one gets its vote first",
			func(c *Config) value { return span{&c.DeadServerAfter, time.Second, 30 * 24 * time.Hour, true} }),
		row("fence", "strict|lease|refused", "lease", "when the shards of a silent node may be taken; of a new cluster, see timing",
			func(c *Config) value { return choice[Fence]{&c.Fence, []Fence{FenceStrict, FenceLease, FenceRefused}} }),
		row("pause", "moving|cluster", "moving", "what pauses while the shard map changes; of a new cluster, see timing",
			func(c *Config) value { return choice[Pause]{&c.Pause, []Pause{PauseMoving, PauseCluster}} }),
	)
}

func requestSettings() []setting {
	return grouped("Requests",
		row("key", "SOURCE", keysource.Default, "where a request's key is: header:NAME, path:N, query:NAME, cookie:NAME, jwt:CLAIM, host, ip; tried in order",
			func(c *Config) value { return list{&c.Keys, checkKeySource} }).list().reloads(),
		row("on-missing", "reject|local|hash-path|cookie", "reject", "what becomes of a request without a key",
			func(c *Config) value { return choice[keysource.Missing]{&c.OnMissing, keysource.Missings()} }).reloads(),
		row("trusted-proxies", "CIDR", "", "networks whose X-Forwarded-* headers are believed",
			func(c *Config) value { return prefixes{&c.TrustedProxies} }).list().reloads(),
		row("forwarded", "", "", "tell the app the header Forwarded too, beside X-Forwarded-*",
			func(c *Config) value { return toggle{&c.Forwarded} }).reloads(),
		row("expose", "", "", "tell clients the node and the shard that answered",
			func(c *Config) value { return toggle{&c.Expose} }).reloads(),
	)
}

func timingSettings() []setting {
	return grouped("Timing",
		row("heartbeat", "DURATION", "100ms", "how often a node tells the leader that it lives",
			func(c *Config) value { return span{&c.Heartbeat, 5 * time.Millisecond, time.Minute, false} }),
		row("lease", "DURATION", "500ms", "for how long a node may serve after it heard from the leader; of a new cluster, see timing",
			func(c *Config) value { return span{&c.Lease, bounds.LeastLease, bounds.MostLease, false} }),
		row("dead-after", "DURATION", "2.5s", "when a silent node's shards may be taken without evidence; of a new cluster, see timing",
			func(c *Config) value { return span{&c.DeadAfter, bounds.LeastDeadAfter, bounds.MostDeadAfter, false} }),
		row("drain-timeout", "DURATION", "5s", "how long a request may finish where its shard was",
			func(c *Config) value { return span{&c.DrainTimeout, 10 * time.Millisecond, time.Hour, false} }),
		row("stream-grace", "DURATION", "250ms", "how long a tunnel or an event stream lives on when its shard moves or its node leaves, within --drain-timeout",
			func(c *Config) value { return span{&c.StreamGrace, 0, time.Hour, false} }).reloads(),
		row("restart-grace", "DURATION", "0s", "how long a crashed node's return is waited for before its shards move",
			func(c *Config) value { return span{&c.RestartGrace, 0, time.Hour, false} }),
		row("lame-duck", "DURATION", "0s", "how long a node that stops goes on taking connections, not ready any more",
			func(c *Config) value { return span{&c.LameDuck, 0, time.Hour, false} }).reloads(),
		row("shutdown-timeout", "DURATION", "30s", "how long stopping may take, all steps together",
			func(c *Config) value { return span{&c.ShutdownTimeout, 100 * time.Millisecond, 24 * time.Hour, false} }),
	)
}

func queueSettings() []setting {
	return grouped("Waiting room",
		row("queue-requests", "N", "10000", "at most so many requests wait",
			func(c *Config) value { return number{p: &c.QueueRequests, lo: 1, hi: 10_000_000} }),
		row("queue-bytes", "SIZE", "64MiB", "at most so many bytes wait",
			func(c *Config) value { return size{&c.QueueBytes, 1 << 10, 1 << 40, false} }),
		row("queue-wait", "DURATION", "15s", "no request waits longer",
			func(c *Config) value { return span{&c.QueueWait, time.Millisecond, time.Hour, false} }),
		row("body-buffer", "SIZE", "64KiB", "bodies up to this size are kept, so that the request can be sent again",
			func(c *Config) value { return size{&c.BodyBuffer, 1 << 10, 1 << 30, false} }),
	)
}

func limitSettings() []setting {
	return grouped("Limits",
		row("max-head", "SIZE", "64KiB", "the longest head of a request, 431, or of an answer, 502",
			func(c *Config) value { return size{&c.MaxHead, 1 << 10, 1 << 20, false} }).reloads(),
		row("max-head-total", "SIZE", "64MiB", "what the partly read heads of all clients keep, in steps of 8 KiB each: past it the slowest get 408",
			func(c *Config) value { return size{&c.MaxHeadTotal, 16 << 10, 1 << 40, false} }).reloads(),
		row("max-headers", "N", "256", "the most header lines, likewise",
			func(c *Config) value { return number{p: &c.MaxHeaders, lo: 10, hi: 10_000} }).reloads(),
		row("max-uri", "SIZE", "16KiB", "the longest request line, 414",
			func(c *Config) value { return size{&c.MaxURI, 64, 1 << 20, false} }).reloads(),
		row("max-body", "SIZE", "off", "the longest body of a request, 413",
			func(c *Config) value { return size{&c.MaxBody, 1, 1 << 50, true} }).reloads(),
		row("max-conns", "N", "16384", "the most connections of clients: at the bound those idle longest are closed, and while none is, accepting pauses",
			func(c *Config) value { return number{p: &c.MaxConns, lo: 1, hi: 10_000_000} }),
		row("head-timeout", "DURATION", "10s", "how long a head may take once it has begun",
			func(c *Config) value { return span{&c.HeadTimeout, 10 * time.Millisecond, time.Hour, false} }).reloads(),
		row("idle-timeout", "DURATION", "1m", "how long a client may be silent between requests and within a body, or read nothing",
			func(c *Config) value { return span{&c.IdleTimeout, 10 * time.Millisecond, 24 * time.Hour, false} }).reloads(),
		row("min-body-rate", "SIZE", "500", "how many bytes of a body have to come each second, after 10 s of waiting for it, else 408; off: none",
			func(c *Config) value { return size{&c.MinBodyRate, 1, 1 << 30, true} }).reloads(),
		row("connect-timeout", "DURATION", "2s", "how long one connect to the app, or to a node, may take",
			func(c *Config) value { return span{&c.ConnectTimeout, 10 * time.Millisecond, time.Minute, false} }).reloads(),
		row("first-byte-timeout", "DURATION", "5m", "how long the app may take from the end of a request to its answer",
			func(c *Config) value { return span{&c.FirstByteTimeout, 10 * time.Millisecond, 24 * time.Hour, true} }).reloads(),
		row("upstream-idle-timeout", "DURATION", "10m", "how long the app may pause within an answer",
			func(c *Config) value {
				return span{&c.UpstreamIdleTimeout, 10 * time.Millisecond, 24 * time.Hour, true}
			}).reloads(),
	)
}

func securitySettings() []setting {
	return grouped("Security between nodes",
		row("secret-file", "FILE", "", "the cluster's secret, made by shardway keygen: encrypts gossip, and gives every node its certificate",
			func(c *Config) value { return text{p: &c.SecretFile} }),
		row("tls-ca", "FILE", "", "own certificates for the peer port instead: the authorities, PEM",
			func(c *Config) value { return text{p: &c.TLSCA} }),
		row("tls-node-cert", "FILE", "", "this node's certificate, with its id as a DNS name or as shardway://node/ID, PEM",
			func(c *Config) value { return text{p: &c.TLSNodeCert} }),
		row("tls-node-key", "FILE", "", "its private key, PEM",
			func(c *Config) value { return text{p: &c.TLSNodeKey} }),
		row("insecure", "", "", "let gossip, peer and admin listen beyond this machine without protection",
			func(c *Config) value { return toggle{&c.Insecure} }),
	)
}

func adminSettings() []setting {
	return grouped("Access to admin",
		row("admin-read-token-file", "FILE", "", "tokens of those who may look: one a line, or NAME TOKEN",
			func(c *Config) value { return text{p: &c.AdminReadTokenFile} }),
		row("admin-write-token-file", "FILE", "", "tokens of those who may change and profile, too",
			func(c *Config) value { return text{p: &c.AdminWriteTokenFile} }),
		row("admin-cert", "FILE", "", "certificate of the admin port, PEM: it speaks TLS then",
			func(c *Config) value { return text{p: &c.AdminCert} }),
		row("admin-key", "FILE", "", "its private key, PEM",
			func(c *Config) value { return text{p: &c.AdminKey} }),
		row("admin-read-ca", "FILE", "", "authorities of the client certificates of those who may look, PEM",
			func(c *Config) value { return text{p: &c.AdminReadCA} }),
		row("admin-write-ca", "FILE", "", "authorities of the client certificates of those who may change, PEM",
			func(c *Config) value { return text{p: &c.AdminWriteCA} }),
		row("admin-host", "NAME", "", "a name by which browsers may call the admin port, besides addresses and localhost",
			func(c *Config) value { return list{&c.AdminHosts, checkHostName} }).list(),
	)
}

func operationSettings() []setting {
	return grouped("Operation",
		row("log-level", "debug|info|warn|error", "info", "the least important lines that are written",
			func(c *Config) value { return choice[string]{&c.LogLevel, []string{"debug", "info", "warn", "error"}} }).reloads(),
		row("log-format", "console|json", "auto", "how log lines look",
			func(c *Config) value {
				return choice[LogFormat]{&c.LogFormat, []LogFormat{LogConsole, LogJSON, LogAuto}}
			}).inWords("console on a terminal, else json"),
		row("access-log", "off|stdout|FILE", AccessOff, "one JSON line per request that a client sent to this node",
			func(c *Config) value { return text{p: &c.AccessLog} }).reloads(),
		row("access-log-keys", "", "", "write the keys themselves too, not only their hashes",
			func(c *Config) value { return toggle{&c.AccessLogKeys} }).reloads(),
		row("access-log-query", "", "", "write the queries too, not only the paths",
			func(c *Config) value { return toggle{&c.AccessLogQuery} }).reloads(),
	)
}

// maxVoters keeps a quorum small: each entry of the log waits for it.
const maxVoters = 9

// checkID judges the name of a node or a zone. It stands in Serf tags, in Raft's
// server ids (before a slash) and in headers.
func checkID(s string) *flaw {
	if len(s) <= 64 && regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`).MatchString(s) {
		return nil
	}
	return &flaw{"not a name", "use up to 64 letters, digits, dots, dashes and underscores, a letter or digit at both ends"}
}

// checkPath judges the path of a probe or a health check.
func checkPath(s string) *flaw {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, " \t\r\n#") {
		return &flaw{"not a path", "write it like /healthz"}
	}
	return nil
}

// checkHostName judges a name by which a port is called.
func checkHostName(s string) *flaw {
	if !address.IsHost(s) {
		return &flaw{"not a name", "write it without scheme and port, like node-1.example.com"}
	}
	return nil
}
