package config

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"shardway/internal/address"
	"shardway/internal/timingrules"
	"shardway/keysource"
)

// setting is one row of the table of settings.
type setting struct {
	name          string              // with dashes
	defaults      []string            // default in the syntax of the setting; empty means none
	shownDefault  string              // default in words, if defaults does not describe it
	metavar       string              // placeholder of the value in the help; empty means a switch
	many          bool                // a list: the flag may be repeated
	group         string              // heading in the help
	help          string              // one line
	bind          func(*Config) value // returns the field of a Config
	flagOnly      bool                // has no YAML key, only a flag and a variable
	reloadable    bool                // a running node applies a new value
	notRepeatable bool                // the flag must not be repeated, because an operator might take it for a list
}

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func (s setting) yaml() string { return strings.ReplaceAll(s.name, "-", "_") }

// row returns a setting, so that the table can be written in columns.
func row(name, metavar, def, help string, bind func(*Config) value) setting {
	s := setting{name: name, metavar: metavar, help: help, bind: bind}
	if def != "" {
		s.defaults = []string{def}
	}
	return s
}

func (s setting) list() setting            { s.many = true; return s }
func (s setting) inWords(d string) setting { s.shownDefault = d; return s }
func (s setting) withoutYAML() setting     { s.flagOnly = true; return s }
func (s setting) reloads() setting         { s.reloadable = true; return s }
func (s setting) notRepeated() setting     { s.notRepeatable = true; return s }
func grouped(g string, rows ...setting) []setting {
	for i := range rows {
		rows[i].group = g
	}
	return rows
}

// settings returns the table, in the order of the help and of problems.
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
		row("config", "FILE", "", "YAML configuration file; its keys are the names of the flags with underscores",
			func(c *Config) value { return textValue{p: &c.File} }).withoutYAML(),
		row("node", "ID", "", "this node's id",
			func(c *Config) value { return textValue{&c.Node, checkID} }).inWords("kept in the data directory"),
		row("data", "DIR", "./data", "data directory: Raft log, snapshots and the node's identity",
			func(c *Config) value { return textValue{p: &c.Data} }),
		row("upstream", "URL", "", "address of the app, http://host:port or unix:/path",
			func(c *Config) value { return textValue{&c.Upstream, checkUpstream} }).inWords("none: a gateway").notRepeated(),
		row("max-upstream-conns", "N", "1024", "maximum concurrent connections to the app",
			func(c *Config) value { return numberValue{p: &c.MaxUpstreamConns, lo: 1, hi: 65535} }),
		row("max-shard-conns", "N", "half", "maximum concurrent connections for a single shard; further requests for it wait",
			func(c *Config) value { return numberValue{p: &c.MaxShardConns, lo: 1, hi: 65535, zero: "half"} }).inWords("half of max-upstream-conns"),
		row("max-shard-inflight", "N", "none", "maximum concurrent requests of a shard at its owner, without streams; further requests get 503 or wait",
			func(c *Config) value { return numberValue{p: &c.MaxShardInflight, lo: 1, hi: 1_000_000, zero: "none"} }).reloads(),
		row("max-streams", "N", "4096", "maximum additional connections for upgraded connections, event streams and long responses",
			func(c *Config) value { return numberValue{p: &c.MaxStreams, lo: 1, hi: 65535} }),
		row("health", "PATH", "", "path of the app's health check",
			func(c *Config) value { return textValue{&c.Health, checkPath} }).inWords("connect only"),
		row("hooks", "URL|PATH", "", "address, or path of the app, to which the node sends hook calls; clients get 404 for the path",
			func(c *Config) value { return textValue{&c.Hooks, checkHooks} }).inWords("none: no hooks"),
		row("health-interval", "DURATION", "500ms", "time between two health checks, ± 10 %; a refused connection triggers a check, at most every 100 ms",
			func(c *Config) value {
				return durationValue{&c.HealthInterval, 50 * time.Millisecond, time.Hour, false}
			}).reloads(),
		row("health-timeout", "DURATION", "2s", "maximum time of one health check",
			func(c *Config) value {
				return durationValue{&c.HealthTimeout, 10 * time.Millisecond, time.Minute, false}
			}).reloads(),
		row("health-fall", "N", "3", "consecutive failed health checks that make the app unhealthy; its shards then move, unless most apps are unhealthy",
			func(c *Config) value { return numberValue{p: &c.HealthFall, lo: 1, hi: 100} }).reloads(),
		row("health-rise", "N", "1", "consecutive successful health checks that make the app healthy again",
			func(c *Config) value { return numberValue{p: &c.HealthRise, lo: 1, hi: 100} }).reloads(),
		row("returns", "after-restart|any", "after-restart", "without --hooks: when a shard may return to an app that owned it before",
			func(c *Config) value {
				return choiceValue[Returns]{&c.Returns, []Returns{ReturnsAfterRestart, ReturnsAny}}
			}),
		row("weight", "N", "1", "this node's share of the shards, relative to the other nodes' weights",
			func(c *Config) value { return numberValue{p: &c.Weight, lo: 1, hi: MaxWeight} }),
		row("app-version", "TEXT", "", "name of the app's version, which nodes and status show",
			func(c *Config) value { return textValue{&c.AppVersion, checkAppVersion} }),
		row("zone", "NAME", "", "zone of this node, used by pins and to spread votes over zones",
			func(c *Config) value { return textValue{&c.Zone, checkID} }),
	)
}

func addressSettings() []setting {
	return grouped("Addresses",
		row("listen", "ADDR", ":8080", "address for client traffic",
			func(c *Config) value { return textValue{&c.Listen, checkBind} }),
		row("admin", "ADDR", "127.0.0.1:8081", "address for status, metrics and commands",
			func(c *Config) value { return textValue{&c.Admin, checkBind} }),
		row("gossip", "ADDR", "127.0.0.1:7946", "address for Serf gossip, TCP and UDP",
			func(c *Config) value { return textValue{&c.Gossip, checkBind} }).inWords("127.0.0.1:7946, with a secret :7946"),
		row("gossip-advertise", "ADDR", "", "address at which other nodes reach --gossip",
			func(c *Config) value { return textValue{&c.GossipAdvertise, checkReach} }).inWords("the local address that routes to the first --join"),
		row("peer", "ADDR", "127.0.0.1:7947", "address for Raft, heartbeats and forwarded requests",
			func(c *Config) value { return textValue{&c.Peer, checkBind} }).inWords("127.0.0.1:7947, with a secret :7947"),
		row("peer-advertise", "ADDR", "", "address at which other nodes reach --peer",
			func(c *Config) value { return textValue{&c.PeerAdvertise, checkReach} }).inWords("the local address that routes to the first --join"),
		row("endpoint", "NAME=ADDR", "", "additional address that this node announces, shown by endpoints",
			func(c *Config) value { return endpoints{&c.Endpoints} }).list(),
		row("probes", "ADDR", "", "separate address for /livez, /readyz and /drained",
			func(c *Config) value { return textValue{&c.Probes, checkBind} }),
		row("probe-path", "PATH", "", "path on the client port at which this node responds like /readyz",
			func(c *Config) value { return textValue{&c.ProbePath, checkProbe} }).reloads(),
		row("tls-cert", "FILE", "", "certificate chain for TLS on the client port, PEM",
			func(c *Config) value { return textValue{p: &c.TLSCert} }).reloads(),
		row("tls-key", "FILE", "", "private key for --tls-cert, PEM; both files are reloaded when they change",
			func(c *Config) value { return textValue{p: &c.TLSKey} }).reloads(),
	)
}

func clusterSettings() []setting {
	return grouped("Cluster",
		row("join", "ADDR", "", "gossip address of a node, or a DNS name; all its addresses (A, AAAA, SRV) are tried",
			func(c *Config) value { return list{&c.Join, checkJoin} }).list(),
		row("bootstrap-expect", "N", "1", "number of nodes that must be present before they create a new cluster, from 1 to 9",
			func(c *Config) value { return numberValue{p: &c.BootstrapExpect, lo: 1, hi: maxVoters} }),
		row("shards", "N", "1024", "number of shards, fixed when the cluster is created",
			func(c *Config) value { return numberValue{p: &c.Shards, lo: 1, hi: 65536} }),
		row("max-voters", "N", "5", "maximum number of voting members",
			func(c *Config) value { return numberValue{p: &c.MaxVoters, lo: 1, hi: maxVoters} }),
		row("remove-dead-after", "DURATION", "off", "remove a failed node after this time; a node without a vote becomes a voter first",
			func(c *Config) value {
				return durationValue{&c.RemoveDeadAfter, time.Second, 30 * 24 * time.Hour, true}
			}),
		row("finalize-after", "DURATION", "1h", "time for which all nodes must support a new format version before it is raised and downgrades end",
			func(c *Config) value { return durationValue{&c.FinalizeAfter, 0, 30 * 24 * time.Hour, false} }),
		row("takeover", "timeout|lease|immediate", "lease", "condition for taking over the shards of an unresponsive node, in a new cluster; see settings",
			func(c *Config) value {
				return choiceValue[Takeover]{&c.Takeover, []Takeover{TakeoverTimeout, TakeoverLease, TakeoverImmediate}}
			}),
		row("rebalance-mode", "incremental|stop-the-world", "incremental", "which shards wait while the shard map changes; applies to a new cluster, see settings",
			func(c *Config) value {
				return choiceValue[RebalanceMode]{&c.RebalanceMode, []RebalanceMode{RebalanceIncremental, RebalanceStopTheWorld}}
			}),
	)
}

func requestSettings() []setting {
	return grouped("Requests",
		row("key", "SOURCE", keysource.Default, "source of the request's key: header:NAME, path:N, query:NAME, cookie:NAME, jwt:CLAIM, host, ip or (under routes) mint; tried in order",
			func(c *Config) value { return list{&c.Keys, checkKeySource} }).list().reloads(),
		row("on-missing-key", "reject|local|hash-path|cookie", "reject", "what to do with a request without a key",
			func(c *Config) value { return choiceValue[keysource.Missing]{&c.OnMissingKey, keysource.Missings()} }).reloads(),
		row("trusted-proxies", "CIDR", "", "networks whose X-Forwarded-*, X-Real-IP and Forwarded headers are trusted",
			func(c *Config) value { return prefixes{&c.TrustedProxies} }).list().reloads(),
		row("websockets", "keep|close", "keep", "what to do with resumable WebSockets when their shard moves",
			func(c *Config) value {
				return choiceValue[WebSockets]{&c.WebSockets, []WebSockets{WebSocketsKeep, WebSocketsClose}}
			}).reloads(),
		row("forwarded", "", "", "also send the Forwarded header to the app, in addition to X-Forwarded-*",
			func(c *Config) value { return boolValue{&c.Forwarded} }).reloads(),
		row("debug-headers", "", "", "add headers with the node and the shard to responses",
			func(c *Config) value { return boolValue{&c.DebugHeaders} }).reloads(),
	)
}

func timingSettings() []setting {
	return grouped("Timing",
		row("heartbeat", "DURATION", "100ms", "interval between a node's heartbeats to the leader",
			func(c *Config) value { return durationValue{&c.Heartbeat, 5 * time.Millisecond, time.Minute, false} }),
		row("lease", "DURATION", "500ms", "how long a node may serve after hearing from the leader; applies to a new cluster, see settings",
			func(c *Config) value {
				return durationValue{&c.Lease, timingrules.MinLease, timingrules.MaxLease, false}
			}),
		row("dead-after", "DURATION", "2.5s", "time after which shards of an unresponsive node are taken over without evidence of a crash, in a new cluster",
			func(c *Config) value {
				return durationValue{&c.DeadAfter, timingrules.MinDeadAfter, timingrules.MaxDeadAfter, false}
			}),
		row("drain-timeout", "DURATION", "5s", "how long a running request may take to finish when its shard moves",
			func(c *Config) value { return durationValue{&c.DrainTimeout, 10 * time.Millisecond, time.Hour, false} }),
		row("release-timeout", "DURATION", "4s", "with --hooks, how long the app may take to release a shard that moves, beyond --drain-timeout",
			func(c *Config) value {
				return durationValue{&c.ReleaseTimeout, 10 * time.Millisecond, time.Minute, false}
			}),
		row("acquire-timeout", "DURATION", "1m", "with --hooks, how long an attempt to acquire shards may take before it is repeated",
			func(c *Config) value {
				return durationValue{&c.AcquireTimeout, 10 * time.Millisecond, time.Hour, false}
			}),
		row("stream-grace", "DURATION", "250ms", "how long an upgraded connection or an event stream continues when its shard moves, within --drain-timeout",
			func(c *Config) value { return durationValue{&c.StreamGrace, 0, time.Hour, false} }).reloads(),
		row("websocket-resume-timeout", "DURATION", "20s", "time without an upstream connection after which the client of a resumable WebSocket is closed with 1012",
			func(c *Config) value { return durationValue{&c.WebSocketResumeTimeout, time.Second, time.Hour, false} }),
		row("restart-grace", "DURATION", "0s", "how long to wait for a crashed node to return before its shards move",
			func(c *Config) value { return durationValue{&c.RestartGrace, 0, time.Hour, false} }),
		row("on-shutdown", "handoff|hold", "handoff", "on SIGTERM: move the shards to other nodes (handoff), or let them wait for the next process (hold)",
			func(c *Config) value {
				return choiceValue[OnShutdown]{&c.OnShutdown, []OnShutdown{OnShutdownHandoff, OnShutdownHold}}
			}),
		row("hold-grace", "DURATION", "8s", "with --on-shutdown hold, how long shards wait for the node's next process before they move",
			func(c *Config) value { return durationValue{&c.HoldGrace, 10 * time.Millisecond, time.Minute, false} }),
		row("lame-duck", "DURATION", "0s", "how long a stopping node keeps accepting connections while reporting not ready",
			func(c *Config) value { return durationValue{&c.LameDuck, 0, time.Hour, false} }).reloads(),
		row("shutdown-timeout", "DURATION", "30s", "maximum total time to shut down",
			func(c *Config) value {
				return durationValue{&c.ShutdownTimeout, 100 * time.Millisecond, 24 * time.Hour, false}
			}),
	)
}

func queueSettings() []setting {
	return grouped("Request queue",
		row("queue-requests", "N", "10000", "maximum number of waiting requests",
			func(c *Config) value { return numberValue{p: &c.QueueRequests, lo: 1, hi: 10_000_000} }),
		row("queue-bytes", "SIZE", "64MiB", "maximum total size of waiting requests",
			func(c *Config) value { return sizeValue{&c.QueueBytes, 1 << 10, 1 << 40, false} }),
		row("queue-wait", "DURATION", "15s", "maximum time that a request waits",
			func(c *Config) value { return durationValue{&c.QueueWait, time.Millisecond, time.Hour, false} }),
		row("body-buffer", "SIZE", "64KiB", "request bodies up to this size are buffered, so that the request can be retried",
			func(c *Config) value { return sizeValue{&c.BodyBuffer, 1 << 10, 1 << 30, false} }),
	)
}

func limitSettings() []setting {
	return grouped("Limits",
		row("max-header-bytes", "SIZE", "64KiB", "maximum size of the headers of a request (431 beyond it) or a response (502)",
			func(c *Config) value { return sizeValue{&c.MaxHeaderBytes, 1 << 10, 1 << 20, false} }).reloads(),
		row("max-header-bytes-total", "SIZE", "64MiB", "maximum total size of partly received headers, in steps of 8 KiB each; beyond it the slowest clients get 408",
			func(c *Config) value { return sizeValue{&c.MaxHeaderBytesTotal, 16 << 10, 1 << 40, false} }).reloads(),
		row("max-body-total", "SIZE", "256MiB", "maximum total memory of request bodies that are still being read; beyond it the slowest clients get 408",
			func(c *Config) value { return sizeValue{&c.MaxBodyTotal, 64 << 10, 1 << 40, false} }).reloads(),
		row("max-headers", "N", "256", "maximum number of header lines of a request (431 beyond it) or a response (502)",
			func(c *Config) value { return numberValue{p: &c.MaxHeaders, lo: 10, hi: 10_000} }).reloads(),
		row("max-uri", "SIZE", "16KiB", "maximum size of the request line (414 beyond it)",
			func(c *Config) value { return sizeValue{&c.MaxURI, 64, 1 << 20, false} }).reloads(),
		row("max-body", "SIZE", "off", "maximum size of a request body (413 beyond it)",
			func(c *Config) value { return sizeValue{&c.MaxBody, 1, 1 << 50, true} }).reloads(),
		row("max-conns", "N", "16384", "maximum client connections; at the limit the longest idle ones are closed, or no new ones are accepted",
			func(c *Config) value { return numberValue{p: &c.MaxConns, lo: 1, hi: 10_000_000} }),
		row("header-timeout", "DURATION", "10s", "maximum time to receive the headers of a request",
			func(c *Config) value { return durationValue{&c.HeaderTimeout, 10 * time.Millisecond, time.Hour, false} }).reloads(),
		row("idle-timeout", "DURATION", "75s", "maximum time without data from a client, between requests or within a body, or without reading by it",
			func(c *Config) value {
				return durationValue{&c.IdleTimeout, 10 * time.Millisecond, 24 * time.Hour, false}
			}).reloads(),
		row("min-body-rate", "SIZE", "500", "minimum rate of a request body in bytes per second, enforced after 10 s (408 below it)",
			func(c *Config) value { return sizeValue{&c.MinBodyRate, 1, 1 << 30, true} }).reloads(),
		row("connect-timeout", "DURATION", "2s", "maximum time to connect to the app or to a node",
			func(c *Config) value {
				return durationValue{&c.ConnectTimeout, 10 * time.Millisecond, time.Minute, false}
			}).reloads(),
		row("first-byte-timeout", "DURATION", "5m", "maximum time from the end of a request to the app's response",
			func(c *Config) value {
				return durationValue{&c.FirstByteTimeout, 10 * time.Millisecond, 24 * time.Hour, true}
			}).reloads(),
		row("upstream-idle-timeout", "DURATION", "10m", "maximum time without data within a response of the app",
			func(c *Config) value {
				return durationValue{&c.UpstreamIdleTimeout, 10 * time.Millisecond, 24 * time.Hour, true}
			}).reloads(),
	)
}

func securitySettings() []setting {
	return grouped("Security between nodes",
		row("secret-file", "FILE", "", "the cluster's secret, from shardway keygen: encrypts gossip and derives every node's certificate",
			func(c *Config) value { return textValue{p: &c.SecretFile} }),
		row("tls-ca", "FILE", "", "use your own certificates on the peer port instead: certificate authorities, PEM",
			func(c *Config) value { return textValue{p: &c.TLSCA} }),
		row("tls-node-cert", "FILE", "", "this node's certificate, with its id as a DNS name or as shardway://node/ID, PEM",
			func(c *Config) value { return textValue{p: &c.TLSNodeCert} }),
		row("tls-node-key", "FILE", "", "private key for --tls-node-cert, PEM",
			func(c *Config) value { return textValue{p: &c.TLSNodeKey} }),
		row("insecure", "", "", "allow gossip, peer and admin ports on external addresses without encryption or authentication",
			func(c *Config) value { return boolValue{&c.Insecure} }),
	)
}

func adminSettings() []setting {
	return grouped("Access to admin",
		row("admin-read-token-file", "FILE", "", "tokens with read access, one per line, TOKEN or NAME TOKEN",
			func(c *Config) value { return textValue{p: &c.AdminReadTokenFile} }),
		row("admin-write-token-file", "FILE", "", "tokens that may also make changes and take profiles",
			func(c *Config) value { return textValue{p: &c.AdminWriteTokenFile} }),
		row("admin-cert", "FILE", "", "certificate for TLS on the admin port, PEM",
			func(c *Config) value { return textValue{p: &c.AdminCert} }),
		row("admin-key", "FILE", "", "private key for --admin-cert, PEM",
			func(c *Config) value { return textValue{p: &c.AdminKey} }),
		row("admin-read-ca", "FILE", "", "certificate authorities of clients with read access, PEM",
			func(c *Config) value { return textValue{p: &c.AdminReadCA} }),
		row("admin-write-ca", "FILE", "", "certificate authorities of clients that may also make changes, PEM",
			func(c *Config) value { return textValue{p: &c.AdminWriteCA} }),
		row("admin-host", "NAME", "", "host name by which browsers may call the admin port, besides IP addresses and localhost",
			func(c *Config) value { return list{&c.AdminHosts, checkHostName} }).list(),
	)
}

func operationSettings() []setting {
	return grouped("Operation",
		row("log-level", "debug|info|warn|error", "info", "minimum level of lines that are logged",
			func(c *Config) value {
				return choiceValue[string]{&c.LogLevel, []string{"debug", "info", "warn", "error"}}
			}).reloads(),
		row("log-format", "console|json", "auto", "format of log lines",
			func(c *Config) value {
				return choiceValue[LogFormat]{&c.LogFormat, []LogFormat{LogConsole, LogJSON, LogAuto}}
			}).inWords("console on a terminal, else json"),
		row("access-log", "off|stdout|FILE", AccessOff, "write one JSON line per client request to this node",
			func(c *Config) value { return textValue{p: &c.AccessLog} }).reloads(),
		row("access-log-keys", "", "", "log keys in plain text, not only their hashes",
			func(c *Config) value { return boolValue{&c.AccessLogKeys} }).reloads(),
		row("access-log-query", "", "", "log query strings as well as paths",
			func(c *Config) value { return boolValue{&c.AccessLogQuery} }).reloads(),
		row("disable", "NAME", "", "optimization that this node does not use, to diagnose problems: event-loop, multiplexing, parking or splice",
			func(c *Config) value { return list{&c.Disable, checkOptimization} }).list(),
	)
}

// checkOptimization checks the name of an optimization.
func checkOptimization(s string) *flaw {
	switch Optimization(s) {
	case EventLoop, Multiplexing, Parking, Splice:
		return nil
	}
	return &flaw{"no optimization has this name", "use event-loop, multiplexing, parking or splice"}
}

// maxVoters limits the size of a quorum, because each log entry waits for it.
const maxVoters = 9

// checkID checks the name of a node or a zone. Serf tags, Raft server IDs (before a slash) and headers
// contain it.
func checkID(s string) *flaw {
	if len(s) <= 64 && regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`).MatchString(s) {
		return nil
	}
	return &flaw{"not a name", "use up to 64 letters, digits, dots, dashes and underscores, a letter or digit at both ends"}
}

// maxAppVersion is the maximum length of the app version, which is a gossip tag. All tags together have
// 512 bytes.
const maxAppVersion = 64

// checkAppVersion checks the version of the app.
func checkAppVersion(s string) *flaw {
	if len(s) > maxAppVersion {
		return &flaw{"it has " + strconv.Itoa(len(s)) + " bytes", "use at most " + strconv.Itoa(maxAppVersion)}
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return &flaw{"not printable ASCII", "use letters, digits, signs and spaces, like 2.1 or build 417"}
	}
	return nil
}

// checkPath checks the path of a probe or a health check.
func checkPath(s string) *flaw {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, " \t\r\n#") {
		return &flaw{"not a path", "write it like /healthz"}
	}
	return nil
}

// checkProbe checks the path of the probe that the node serves.
func checkProbe(s string) *flaw {
	if strings.Contains(s, "?") {
		return &flaw{"a path with a query", "leave out what begins with the ?: the query of a request is not looked at"}
	}
	return checkPath(s)
}

// checkHostName checks a host name of a port.
func checkHostName(s string) *flaw {
	if !address.IsHost(s) {
		return &flaw{"not a name", "write it without scheme and port, like node-1.example.com"}
	}
	return nil
}
