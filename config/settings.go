package config

import (
	"strconv"
	"strings"
	"time"

	"shardway/internal/address"
	"shardway/internal/nodelabel"
	"shardway/internal/timingrules"
	"shardway/keysource"
	"shardway/shardmap"
)

// setting is one row of the table of settings.
type setting struct {
	name          string                     // name of the flag, with dashes
	defaults      []string                   // default in the syntax of the setting; empty means none
	shownDefault  string                     // default in words, if defaults does not describe it
	metavar       string                     // placeholder of the value in the help; empty means a switch
	separator     string                     // of the elements of a list in one text; empty means that the value is no list
	group         string                     // heading in the help
	help          string                     // one line
	valueOf       func(*Config) settingValue // returns the field of a Config, to parse, check and format it
	flagOnly      bool                       // only a flag and an environment variable, no YAML key
	reloadable    bool                       // a running node applies a new value
	notRepeatable bool                       // the flag must not be repeated, because an operator might take it for a list
	emptyResets   bool                       // an empty value of the flag removes the values before it
	yamlAlias     string                     // another YAML key; empty means none
	redact        func(string) string        // returns the value without its secrets; nil means that it has none
}

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func (s setting) yaml() string { return strings.ReplaceAll(s.name, "-", "_") }

// newSetting returns a setting with the arguments that each row of the table has. The methods below add
// the rarer properties. An empty defaultText means no default.
func newSetting(name, metavar, defaultText, help string, valueOf func(*Config) settingValue) setting {
	row := setting{name: name, metavar: metavar, help: help, valueOf: valueOf}
	if defaultText != "" {
		row.defaults = []string{defaultText}
	}
	return row
}

// isList reports whether the value is a list. The flag of a list may be repeated.
func (s setting) isList() bool { return s.separator != "" }

// asList makes the setting a list whose elements are separated by commas in one text.
func (s setting) asList() setting {
	s.separator = ","
	return s
}

// asLines makes the setting a list whose elements are lines in one text, because they may contain commas.
func (s setting) asLines() setting {
	s.separator = "\n"
	return s
}

func (s setting) withShownDefault(text string) setting { s.shownDefault = text; return s }
func (s setting) withoutYAML() setting                 { s.flagOnly = true; return s }
func (s setting) asReloadable() setting                { s.reloadable = true; return s }
func (s setting) asNotRepeatable() setting             { s.notRepeatable = true; return s }
func (s setting) withEmptyReset() setting              { s.emptyResets = true; return s }
func (s setting) withYAMLAlias(key string) setting     { s.yamlAlias = key; return s }
func (s setting) withSecrets(redact func(string) string) setting {
	s.redact = redact
	return s
}

// shownValue returns the value of the setting in c, without secrets.
func (s setting) shownValue(c *Config) string {
	text := s.valueOf(c).String()
	if s.redact != nil {
		return s.redact(text)
	}
	return text
}

func inGroup(group string, settings ...setting) []setting {
	for i := range settings {
		settings[i].group = group
	}
	return settings
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
	return inGroup("Node",
		newSetting("config", "FILE", "", "YAML configuration file; its keys are the names of the flags with underscores",
			func(c *Config) settingValue { return textValue{field: &c.File} }).withoutYAML(),
		newSetting("node", "ID", "", "this node's id",
			func(c *Config) settingValue { return textValue{&c.Node, checkID} }).withShownDefault("kept in the data directory"),
		newSetting("data", "DIR", "./data", "data directory: Raft log, snapshots and the node's identity",
			func(c *Config) settingValue { return textValue{field: &c.Data} }),
		newSetting("upstream", "URL", "", "address of the app, http://host:port or unix:/path; may be repeated, once for each app instance",
			func(c *Config) settingValue { return upstreamListValue{&c.Upstream, &c.FurtherUpstreams} }).withShownDefault("none: a gateway").asList().withEmptyReset().withYAMLAlias("upstreams"),
		newSetting("exec", "CMD", "", "command of the app, run once for each key or shard; replaces {addr}, {port}, {dir}, {key} and {shard}",
			func(c *Config) settingValue { return textValue{&c.Exec, checkExec} }).withShownDefault("none: see --upstream").asNotRepeatable(),
		newSetting("exec-per", "key|shard", "key", "with --exec, what each process of the app is for",
			func(c *Config) settingValue {
				return choiceValue[ExecPer]{&c.ExecPer, []ExecPer{ExecPerKey, ExecPerShard}}
			}),
		newSetting("exec-dir", "DIR", "", "with --exec, directory that contains the directory {dir} of each process; on storage that all nodes share",
			func(c *Config) settingValue { return textValue{field: &c.ExecDir} }).withShownDefault("exec in the data directory"),
		newSetting("exec-ready", "PATH", "", "with --exec, path at which a process responds with 2xx when it is ready; {key} is replaced",
			func(c *Config) settingValue { return textValue{&c.ExecReady, checkPath} }).withShownDefault("connect only"),
		newSetting("exec-idle", "DURATION", "off", "with --exec, time without requests, streams and WebSockets after which a process is stopped",
			func(c *Config) settingValue {
				return durationValue{&c.ExecIdle, time.Second, 30 * 24 * time.Hour, true}
			}),
		newSetting("exec-max", "N", "200", "with --exec, maximum number of processes; beyond it the longest unused one is stopped, or requests get 503",
			func(c *Config) settingValue { return numberValue{field: &c.ExecMax, min: 1, max: 65535} }),
		newSetting("max-upstream-conns", "N", "1024", "maximum concurrent connections to each app instance or process",
			func(c *Config) settingValue { return numberValue{field: &c.MaxUpstreamConns, min: 1, max: 65535} }),
		newSetting("max-shard-conns", "N", "half", "maximum concurrent connections for a single shard; further requests for it wait",
			func(c *Config) settingValue {
				return numberValue{field: &c.MaxShardConns, min: 1, max: 65535, zeroWord: "half"}
			}).withShownDefault("half of max-upstream-conns"),
		newSetting("max-shard-inflight", "N", "none", "maximum concurrent requests of a shard at its owner, without streams; further requests get 503 or wait",
			func(c *Config) settingValue {
				return numberValue{field: &c.MaxShardInflight, min: 1, max: 1_000_000, zeroWord: "none"}
			}).asReloadable(),
		newSetting("max-key-inflight", "N", "none", "maximum concurrent requests of a key, without upgraded connections and event streams; further requests get 503 or wait",
			func(c *Config) settingValue {
				return numberValue{field: &c.MaxKeyInflight, min: 1, max: 1_000_000, zeroWord: "none"}
			}).asReloadable(),
		newSetting("key-limit", "LIMITS", "off", "limits of each key, as parameters like rate=10/s; burst=20 (429 beyond them)",
			func(c *Config) settingValue { return textValue{&c.KeyLimit, checkKeyLimit} }).asReloadable(),
		newSetting("shard-queue", "N", "none", "maximum requests that wait, in order of arrival, for the in-flight limit of their shard, or of their key",
			func(c *Config) settingValue {
				return numberValue{field: &c.ShardQueue, min: 1, max: 1_000_000, zeroWord: "none"}
			}).asReloadable(),
		newSetting("max-streams", "N", "4096", "maximum additional connections for upgraded connections, event streams and long responses",
			func(c *Config) settingValue { return numberValue{field: &c.MaxStreams, min: 1, max: 65535} }),
		newSetting("health", "PATH", "", "path of the app's health check",
			func(c *Config) settingValue { return textValue{&c.Health, checkPath} }).withShownDefault("connect only"),
		newSetting("health-method", "METHOD", "GET", "with --health, method of the request",
			func(c *Config) settingValue { return textValue{&c.HealthMethod, checkHealthMethod} }),
		newSetting("health-host", "HOST", "", "with --health, Host header of the request",
			func(c *Config) settingValue { return textValue{&c.HealthHost, checkHealthHost} }).withShownDefault("the address of the app"),
		newSetting("health-header", "NAME: VALUE", "", "with --health, header field of the request, like X-Forwarded-Proto: https; one in each line of the variable",
			func(c *Config) settingValue { return textListValue{&c.HealthHeaders, eachText(checkHealthHeader)} }).asLines(),
		newSetting("health-status", "STATUS", "200-399", "with --health, status of the response of a healthy app: codes and ranges like 200, 200-399 or 2xx",
			func(c *Config) settingValue { return textListValue{&c.HealthStatus, eachText(checkStatusRange)} }).asList(),
		newSetting("health-body", "TEXT", "", "with --health, text in the first 64 KiB of the body of the response of a healthy app",
			func(c *Config) settingValue { return textValue{&c.HealthBody, checkHealthBody} }).withShownDefault("any"),
		newSetting("hooks", "URL|PATH", "", "address, or path of the app, to which the node sends hook calls; clients get 404 for the path",
			func(c *Config) settingValue { return textValue{&c.Hooks, checkHooks} }).withShownDefault("none: no hooks"),
		newSetting("health-interval", "DURATION", "500ms", "time between two health checks, ± 10 %; a refused connection triggers a check, at most every 100 ms",
			func(c *Config) settingValue {
				return durationValue{&c.HealthInterval, 50 * time.Millisecond, time.Hour, false}
			}).asReloadable(),
		newSetting("health-timeout", "DURATION", "2s", "maximum time of one health check",
			func(c *Config) settingValue {
				return durationValue{&c.HealthTimeout, 10 * time.Millisecond, time.Minute, false}
			}).asReloadable(),
		newSetting("health-fall", "N", "3", "consecutive failed health checks that make the app unhealthy; its shards then move, unless most apps are unhealthy",
			func(c *Config) settingValue { return numberValue{field: &c.HealthFall, min: 1, max: 100} }).asReloadable(),
		newSetting("health-rise", "N", "1", "consecutive successful health checks that make the app healthy again",
			func(c *Config) settingValue { return numberValue{field: &c.HealthRise, min: 1, max: 100} }).asReloadable(),
		newSetting("returns", "after-restart|any", "after-restart", "without --hooks: when a shard may return to an app that owned it before",
			func(c *Config) settingValue {
				return choiceValue[Returns]{&c.Returns, []Returns{ReturnsAfterRestart, ReturnsAny}}
			}),
		newSetting("weight", "N", "1", "this node's share of the shards, relative to the other nodes' weights",
			func(c *Config) settingValue { return numberValue{field: &c.Weight, min: 1, max: MaxWeight} }),
		newSetting("app-version", "TEXT", "", "name of the app's version, which nodes and status show",
			func(c *Config) settingValue { return textValue{&c.AppVersion, checkAppVersion} }),
		newSetting("zone", "NAME", "", "zone of this node, used by pins and standbys, and to spread votes and shards",
			func(c *Config) settingValue { return textValue{&c.Zone, checkID} }),
		newSetting("region", "NAME", "", "region of this node, which nodes and status show",
			func(c *Config) settingValue { return textValue{&c.Region, checkID} }),
		newSetting("role", "NAME", "", "role of this node, a word of your choice, which nodes and status show",
			func(c *Config) settingValue { return textListValue{&c.Roles, checkRoles} }).asList(),
		newSetting("meta", "KEY=VALUE", "", "metadata of this node, which nodes and status show; up to 16 entries with 256 bytes together",
			func(c *Config) settingValue { return textListValue{&c.Meta, checkMeta} }).asList(),
	)
}

func addressSettings() []setting {
	return inGroup("Addresses",
		newSetting("listen", "ADDR", ":8080", "address for client traffic",
			func(c *Config) settingValue { return textValue{&c.Listen, checkListenAddr} }),
		newSetting("admin", "ADDR", "127.0.0.1:8081", "address for status, metrics and commands",
			func(c *Config) settingValue { return textValue{&c.Admin, checkListenAddr} }),
		newSetting("gossip", "ADDR", "127.0.0.1:7946", "address for Serf gossip, TCP and UDP",
			func(c *Config) settingValue { return textValue{&c.Gossip, checkListenAddr} }).withShownDefault("127.0.0.1:7946, with a secret :7946"),
		newSetting("gossip-advertise", "ADDR", "", "address at which other nodes reach --gossip",
			func(c *Config) settingValue { return textValue{&c.GossipAdvertise, checkAdvertiseAddr} }).withShownDefault("the local address that routes to the first --join"),
		newSetting("peer", "ADDR", "127.0.0.1:7947", "address for Raft, heartbeats and forwarded requests",
			func(c *Config) settingValue { return textValue{&c.Peer, checkListenAddr} }).withShownDefault("127.0.0.1:7947, with a secret :7947"),
		newSetting("peer-advertise", "ADDR", "", "address at which other nodes reach --peer",
			func(c *Config) settingValue { return textValue{&c.PeerAdvertise, checkAdvertiseAddr} }).withShownDefault("the local address that routes to the first --join"),
		newSetting("endpoint", "NAME=ADDR", "", "additional address that this node announces, shown by endpoints",
			func(c *Config) settingValue { return endpointListValue{&c.Endpoints} }).asList(),
		newSetting("probes", "ADDR", "", "separate address for /livez, /readyz and /drained",
			func(c *Config) settingValue { return textValue{&c.Probes, checkListenAddr} }),
		newSetting("probe-path", "PATH", "", "path on the client port at which this node responds like /readyz",
			func(c *Config) settingValue { return textValue{&c.ProbePath, checkProbePath} }).asReloadable(),
		newSetting("tls-cert", "FILE", "", "certificate chain for TLS on the client port, PEM",
			func(c *Config) settingValue { return textValue{field: &c.TLSCert} }).asReloadable(),
		newSetting("tls-key", "FILE", "", "private key for --tls-cert, PEM; both files are reloaded when they change",
			func(c *Config) settingValue { return textValue{field: &c.TLSKey} }).asReloadable(),
	)
}

func clusterSettings() []setting {
	return inGroup("Cluster",
		newSetting("join", "ADDR", "", "gossip address of a node, a DNS name (A, AAAA, SRV), or mdns to search the local network",
			func(c *Config) settingValue { return textListValue{&c.Join, eachText(checkJoin)} }).asList(),
		newSetting("bootstrap-expect", "N", "1", "number of nodes that must be present before they create a new cluster, from 1 to 9",
			func(c *Config) settingValue { return numberValue{field: &c.BootstrapExpect, min: 1, max: maxVoters} }),
		newSetting("shards", "N", "1024", "number of shards, fixed when the cluster is created",
			func(c *Config) settingValue { return numberValue{field: &c.Shards, min: 1, max: 65536} }),
		newSetting("replicas", "N", "0", "number of standbys of each shard, which take it over after a failure, from 0 to 8",
			func(c *Config) settingValue {
				return numberValue{field: &c.Replicas, min: 0, max: shardmap.MaxReplicas}
			}),
		newSetting("spread-zones", "", "", "give all zones the same number of shards, independent of their numbers of nodes",
			func(c *Config) settingValue { return boolValue{&c.SpreadZones} }),
		newSetting("max-voters", "N", "5", "maximum number of voting members",
			func(c *Config) settingValue { return numberValue{field: &c.MaxVoters, min: 1, max: maxVoters} }),
		newSetting("remove-dead-after", "DURATION", "off", "remove a failed node after this time; a node without a vote becomes a voter first",
			func(c *Config) settingValue {
				return durationValue{&c.RemoveDeadAfter, time.Second, 30 * 24 * time.Hour, true}
			}),
		newSetting("join-approval", "auto|manual", "auto", "whether a new node joins at once, or waits until an operator approves it",
			func(c *Config) settingValue {
				return choiceValue[JoinApproval]{&c.JoinApproval, []JoinApproval{JoinAuto, JoinManual}}
			}),
		newSetting("join-timeout", "DURATION", "1h", "time for which a join request waits for an approval, from 1s to 720h",
			func(c *Config) settingValue {
				return durationValue{&c.JoinTimeout, time.Second, 30 * 24 * time.Hour, false}
			}),
		newSetting("finalize-after", "DURATION", "1h", "time for which all nodes must support a new format version before it is raised and downgrades end",
			func(c *Config) settingValue { return durationValue{&c.FinalizeAfter, 0, 30 * 24 * time.Hour, false} }),
		newSetting("registry", "", "", "offer the locks of the cluster's registry at the admin port",
			func(c *Config) settingValue { return boolValue{&c.Registry} }),
		newSetting("takeover", "timeout|lease|immediate", "lease", "condition for taking over the shards of an unresponsive node, in a new cluster; see settings",
			func(c *Config) settingValue {
				return choiceValue[Takeover]{&c.Takeover, []Takeover{TakeoverTimeout, TakeoverLease, TakeoverImmediate}}
			}),
		newSetting("rebalance-mode", "incremental|stop-the-world", "incremental", "which shards wait while the shard map changes; applies to a new cluster, see settings",
			func(c *Config) settingValue {
				return choiceValue[RebalanceMode]{&c.RebalanceMode, []RebalanceMode{RebalanceIncremental, RebalanceStopTheWorld}}
			}),
	)
}

func requestSettings() []setting {
	return inGroup("Requests",
		newSetting("key", "SOURCE", keysource.Default, "source of the request's key, such as header:NAME, path:N, query:NAME, cookie:NAME, wrap:cookie:NAME, jwt:CLAIM, json:/POINTER, form:FIELD or host; tried in order",
			func(c *Config) settingValue { return textListValue{&c.Keys, eachText(checkKeySource)} }).asList().asReloadable(),
		newSetting("on-missing-key", "reject|local|hash-path|cookie", "reject", "what to do with a request without a key",
			func(c *Config) settingValue {
				return choiceValue[keysource.Missing]{&c.OnMissingKey, keysource.Missings()}
			}).asReloadable(),
		newSetting("cookie", "ATTRIBUTES", "", "with --on-missing-key cookie, attributes of the cookie, like name=app-key; max-age=720h",
			func(c *Config) settingValue { return textValue{&c.Cookie, checkCookie} }).withShownDefault("name=Shardway-Key").asReloadable().asNotRepeatable(),
		newSetting("trusted-proxies", "CIDR", "", "networks whose X-Forwarded-*, X-Real-IP and Forwarded headers are trusted",
			func(c *Config) settingValue { return networkListValue{&c.TrustedProxies} }).asList().asReloadable(),
		newSetting("websockets", "keep|close", "keep", "what to do with resumable WebSockets when their shard moves",
			func(c *Config) settingValue {
				return choiceValue[WebSockets]{&c.WebSockets, []WebSockets{WebSocketsKeep, WebSocketsClose}}
			}).asReloadable(),
		newSetting("forwarded", "", "", "also send the Forwarded header to the app, in addition to X-Forwarded-*",
			func(c *Config) settingValue { return boolValue{&c.Forwarded} }).asReloadable(),
		newSetting("debug-headers", "", "", "add headers with the node and the shard to responses",
			func(c *Config) settingValue { return boolValue{&c.DebugHeaders} }).asReloadable(),
	)
}

func timingSettings() []setting {
	return inGroup("Timing",
		newSetting("heartbeat", "DURATION", "100ms", "interval between a node's heartbeats to the leader",
			func(c *Config) settingValue {
				return durationValue{&c.Heartbeat, 5 * time.Millisecond, time.Minute, false}
			}),
		newSetting("lease", "DURATION", "500ms", "how long a node may serve after hearing from the leader; applies to a new cluster, see settings",
			func(c *Config) settingValue {
				return durationValue{&c.Lease, timingrules.MinLease, timingrules.MaxLease, false}
			}),
		newSetting("dead-after", "DURATION", "2.5s", "time after which shards of an unresponsive node are taken over without evidence of a crash, in a new cluster",
			func(c *Config) settingValue {
				return durationValue{&c.DeadAfter, timingrules.MinDeadAfter, timingrules.MaxDeadAfter, false}
			}),
		newSetting("raft-timeout", "DURATION", "500ms", "time without the leader after which a voter starts an election; the same on all nodes",
			func(c *Config) settingValue {
				return durationValue{&c.RaftTimeout, timingrules.MinRaftTimeout, timingrules.MaxRaftTimeout, false}
			}),
		newSetting("drain-timeout", "DURATION", "5s", "how long a running request may take to finish when its shard moves",
			func(c *Config) settingValue {
				return durationValue{&c.DrainTimeout, 10 * time.Millisecond, time.Hour, false}
			}),
		newSetting("release-timeout", "DURATION", "4s", "with --hooks, how long the app may take to release a shard that moves, beyond --drain-timeout",
			func(c *Config) settingValue {
				return durationValue{&c.ReleaseTimeout, 10 * time.Millisecond, time.Minute, false}
			}),
		newSetting("acquire-timeout", "DURATION", "1m", "with --hooks, how long an attempt to acquire shards may take before it is repeated",
			func(c *Config) settingValue {
				return durationValue{&c.AcquireTimeout, 10 * time.Millisecond, time.Hour, false}
			}),
		newSetting("stream-grace", "DURATION", "250ms", "how long an upgraded connection or an event stream continues when its shard moves, within --drain-timeout",
			func(c *Config) settingValue { return durationValue{&c.StreamGrace, 0, time.Hour, false} }).asReloadable(),
		newSetting("websocket-resume-timeout", "DURATION", "20s", "time without an upstream connection after which the client of a resumable WebSocket is closed with 1012",
			func(c *Config) settingValue {
				return durationValue{&c.WebSocketResumeTimeout, time.Second, time.Hour, false}
			}),
		newSetting("restart-grace", "DURATION", "0s", "how long to wait for a crashed node to return before its shards move",
			func(c *Config) settingValue { return durationValue{&c.RestartGrace, 0, time.Hour, false} }),
		newSetting("on-shutdown", "handoff|hold", "handoff", "on SIGTERM: move the shards to other nodes (handoff), or let them wait for the next process (hold)",
			func(c *Config) settingValue {
				return choiceValue[OnShutdown]{&c.OnShutdown, []OnShutdown{OnShutdownHandoff, OnShutdownHold}}
			}),
		newSetting("hold-grace", "DURATION", "8s", "with --on-shutdown hold, how long shards wait for the node's next process before they move",
			func(c *Config) settingValue {
				return durationValue{&c.HoldGrace, 10 * time.Millisecond, time.Minute, false}
			}),
		newSetting("lame-duck", "DURATION", "0s", "how long a stopping node keeps accepting connections while reporting not ready",
			func(c *Config) settingValue { return durationValue{&c.LameDuck, 0, time.Hour, false} }).asReloadable(),
		newSetting("shutdown-timeout", "DURATION", "30s", "maximum total time to shut down",
			func(c *Config) settingValue {
				return durationValue{&c.ShutdownTimeout, 100 * time.Millisecond, 24 * time.Hour, false}
			}),
	)
}

func queueSettings() []setting {
	return inGroup("Request queue",
		newSetting("queue-requests", "N", "10000", "maximum number of waiting requests",
			func(c *Config) settingValue { return numberValue{field: &c.QueueRequests, min: 1, max: 10_000_000} }),
		newSetting("queue-bytes", "SIZE", "64MiB", "maximum total size of waiting requests",
			func(c *Config) settingValue { return sizeValue{&c.QueueBytes, 1 << 10, 1 << 40, false} }),
		newSetting("queue-wait", "DURATION", "15s", "maximum time that a request waits",
			func(c *Config) settingValue { return durationValue{&c.QueueWait, time.Millisecond, time.Hour, false} }),
		newSetting("body-buffer", "SIZE", "64KiB", "request bodies up to this size are buffered, so that the request can be retried",
			func(c *Config) settingValue { return sizeValue{&c.BodyBuffer, 1 << 10, 1 << 30, false} }),
	)
}

func limitSettings() []setting {
	return inGroup("Limits",
		newSetting("max-header-bytes", "SIZE", "64KiB", "maximum size of the headers of a request (431 beyond it) or a response (502)",
			func(c *Config) settingValue { return sizeValue{&c.MaxHeaderBytes, 1 << 10, 1 << 20, false} }).asReloadable(),
		newSetting("max-header-bytes-total", "SIZE", "64MiB", "maximum total size of partly received headers, in steps of 8 KiB each; beyond it the slowest clients get 408",
			func(c *Config) settingValue { return sizeValue{&c.MaxHeaderBytesTotal, 16 << 10, 1 << 40, false} }).asReloadable(),
		newSetting("max-body-total", "SIZE", "256MiB", "maximum total memory of request bodies that are still being read; beyond it the slowest clients get 408",
			func(c *Config) settingValue { return sizeValue{&c.MaxBodyTotal, 64 << 10, 1 << 40, false} }).asReloadable(),
		newSetting("max-headers", "N", "256", "maximum number of header lines of a request (431 beyond it) or a response (502)",
			func(c *Config) settingValue { return numberValue{field: &c.MaxHeaders, min: 10, max: 10_000} }).asReloadable(),
		newSetting("max-uri", "SIZE", "16KiB", "maximum size of the request line (414 beyond it)",
			func(c *Config) settingValue { return sizeValue{&c.MaxURI, 64, 1 << 20, false} }).asReloadable(),
		newSetting("max-body", "SIZE", "off", "maximum size of a request body (413 beyond it)",
			func(c *Config) settingValue { return sizeValue{&c.MaxBody, 1, 1 << 50, true} }).asReloadable(),
		newSetting("max-conns", "N", "16384", "maximum client connections; at the limit the longest idle ones are closed, or no new ones are accepted",
			func(c *Config) settingValue { return numberValue{field: &c.MaxConns, min: 1, max: 10_000_000} }),
		newSetting("header-timeout", "DURATION", "10s", "maximum time to receive the headers of a request",
			func(c *Config) settingValue {
				return durationValue{&c.HeaderTimeout, 10 * time.Millisecond, time.Hour, false}
			}).asReloadable(),
		newSetting("idle-timeout", "DURATION", "75s", "maximum time without data from a client, between requests or within a body, or without reading by it",
			func(c *Config) settingValue {
				return durationValue{&c.IdleTimeout, 10 * time.Millisecond, 24 * time.Hour, false}
			}).asReloadable(),
		newSetting("min-body-rate", "SIZE", "500", "minimum rate of a request body in bytes per second, enforced after 10 s (408 below it)",
			func(c *Config) settingValue { return sizeValue{&c.MinBodyRate, 1, 1 << 30, true} }).asReloadable(),
		newSetting("connect-timeout", "DURATION", "2s", "maximum time to connect to the app or to a node",
			func(c *Config) settingValue {
				return durationValue{&c.ConnectTimeout, 10 * time.Millisecond, time.Minute, false}
			}).asReloadable(),
		newSetting("first-byte-timeout", "DURATION", "5m", "maximum time from the end of a request to the app's response",
			func(c *Config) settingValue {
				return durationValue{&c.FirstByteTimeout, 10 * time.Millisecond, 24 * time.Hour, true}
			}).asReloadable(),
		newSetting("total-timeout", "DURATION", "off", "maximum time from the headers of a request to the end of its response, without WebSockets and event streams",
			func(c *Config) settingValue {
				return durationValue{&c.TotalTimeout, 10 * time.Millisecond, 24 * time.Hour, true}
			}).asReloadable(),
		newSetting("upstream-idle-timeout", "DURATION", "10m", "maximum time without data within a response of the app",
			func(c *Config) settingValue {
				return durationValue{&c.UpstreamIdleTimeout, 10 * time.Millisecond, 24 * time.Hour, true}
			}).asReloadable(),
	)
}

func securitySettings() []setting {
	return inGroup("Security between nodes",
		newSetting("secret-file", "FILE", "", "the cluster's secret, from shardway keygen: encrypts gossip and derives every node's certificate",
			func(c *Config) settingValue { return textValue{field: &c.SecretFile} }),
		newSetting("tls-ca", "FILE", "", "use your own certificates on the peer port instead: certificate authorities, PEM",
			func(c *Config) settingValue { return textValue{field: &c.TLSCA} }),
		newSetting("tls-node-cert", "FILE", "", "this node's certificate, with its id as a DNS name or as shardway://node/ID, PEM",
			func(c *Config) settingValue { return textValue{field: &c.TLSNodeCert} }),
		newSetting("tls-node-key", "FILE", "", "private key for --tls-node-cert, PEM",
			func(c *Config) settingValue { return textValue{field: &c.TLSNodeKey} }),
		newSetting("insecure", "", "", "allow gossip, peer and admin ports on external addresses without encryption or authentication",
			func(c *Config) settingValue { return boolValue{&c.Insecure} }),
	)
}

func adminSettings() []setting {
	return inGroup("Access to admin",
		newSetting("admin-read-token-file", "FILE", "", "tokens with read access, one per line, TOKEN or NAME TOKEN",
			func(c *Config) settingValue { return textValue{field: &c.AdminReadTokenFile} }),
		newSetting("admin-write-token-file", "FILE", "", "tokens that may also make changes and take profiles",
			func(c *Config) settingValue { return textValue{field: &c.AdminWriteTokenFile} }),
		newSetting("admin-cert", "FILE", "", "certificate for TLS on the admin port, PEM",
			func(c *Config) settingValue { return textValue{field: &c.AdminCert} }),
		newSetting("admin-key", "FILE", "", "private key for --admin-cert, PEM",
			func(c *Config) settingValue { return textValue{field: &c.AdminKey} }),
		newSetting("admin-read-ca", "FILE", "", "certificate authorities of clients with read access, PEM",
			func(c *Config) settingValue { return textValue{field: &c.AdminReadCA} }),
		newSetting("admin-write-ca", "FILE", "", "certificate authorities of clients that may also make changes, PEM",
			func(c *Config) settingValue { return textValue{field: &c.AdminWriteCA} }),
		newSetting("admin-host", "NAME", "", "host name by which browsers may call the admin port, besides IP addresses and localhost",
			func(c *Config) settingValue { return textListValue{&c.AdminHosts, eachText(checkHostName)} }).asList(),
	)
}

func operationSettings() []setting {
	return inGroup("Operation",
		newSetting("log-level", "debug|info|warn|error", "info", "minimum level of lines that are logged",
			func(c *Config) settingValue {
				return choiceValue[string]{&c.LogLevel, []string{"debug", "info", "warn", "error"}}
			}).asReloadable(),
		newSetting("log-format", "console|json", "auto", "format of log lines",
			func(c *Config) settingValue {
				return choiceValue[LogFormat]{&c.LogFormat, []LogFormat{LogConsole, LogJSON, LogAuto}}
			}).withShownDefault("json, or console on a terminal"),
		newSetting("access-log", "off|stdout|FILE", AccessOff, "write one JSON line per client request to this node",
			func(c *Config) settingValue { return textValue{field: &c.AccessLog} }).asReloadable(),
		newSetting("access-log-keys", "", "", "log keys in plain text, not only their hashes",
			func(c *Config) settingValue { return boolValue{&c.AccessLogKeys} }).asReloadable(),
		newSetting("access-log-query", "", "", "log query strings as well as paths",
			func(c *Config) settingValue { return boolValue{&c.AccessLogQuery} }).asReloadable(),
		newSetting("webhook", "URL", "", "http or https address to which this node sends its events, as CloudEvents in JSON batches",
			func(c *Config) settingValue { return textValue{&c.Webhook, checkWebhook} }).withShownDefault("none").asReloadable().withSecrets(address.RedactURL),
		newSetting("disable", "NAME", "", "optimization that this node does not use, to diagnose problems: event-loop, multiplexing, parking or splice",
			func(c *Config) settingValue { return textListValue{&c.Disable, eachText(checkOptimization)} }).asList(),
	)
}

// checkOptimization checks the name of an optimization.
func checkOptimization(name string) *valueProblem {
	switch Optimization(name) {
	case EventLoop, Multiplexing, Parking, Splice:
		return nil
	}
	return &valueProblem{"no optimization has this name", "use event-loop, multiplexing, parking or splice"}
}

// maxVoters limits the size of a quorum, because each log entry waits for it.
const maxVoters = 9

// checkID checks the name of a node, a zone, a region or an announced service.
func checkID(id string) *valueProblem {
	if nodelabel.IsID(id) {
		return nil
	}
	return &valueProblem{"not a name", "use up to 64 letters, digits, dots, dashes and underscores, a letter or digit at both ends"}
}

// maxAppVersion is the maximum length of the app version, which is a gossip tag. All tags together have
// 512 bytes.
const maxAppVersion = nodelabel.MaxVersionBytes

// checkAppVersion checks the version of the app.
func checkAppVersion(version string) *valueProblem {
	if len(version) > maxAppVersion {
		return &valueProblem{"it has " + strconv.Itoa(len(version)) + " bytes", "use at most " + strconv.Itoa(maxAppVersion)}
	}
	if !nodelabel.IsVersion(version) {
		return &valueProblem{"not printable ASCII", "use letters, digits, signs and spaces, like 2.1 or build 417"}
	}
	return nil
}

// checkPath checks the path of a probe or a health check.
func checkPath(path string) *valueProblem {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \t\r\n#") {
		return &valueProblem{"not a path", "write it like /healthz"}
	}
	return nil
}

// checkProbePath checks the path of the probe that the node serves.
func checkProbePath(path string) *valueProblem {
	if strings.Contains(path, "?") {
		return &valueProblem{"a path with a query", "leave out what begins with the ?: the query of a request is not looked at"}
	}
	return checkPath(path)
}

// checkRoles checks the roles of a node.
func checkRoles(roles []string) *valueProblem { return problemOf(nodelabel.CheckRoles(roles)) }

// checkMeta checks the metadata entries of a node.
func checkMeta(entries []string) *valueProblem {
	_, err := nodelabel.ParseMeta(entries)
	return problemOf(err)
}

// checkWebhook checks the URL of the receiver of events.
func checkWebhook(text string) *valueProblem {
	_, err := address.ParseWebhook(text)
	return problemOf(err)
}

// checkHostName checks a host name of a port.
func checkHostName(name string) *valueProblem {
	if !address.IsHost(name) {
		return &valueProblem{"not a name", "write it without scheme and port, like node-1.example.com"}
	}
	return nil
}
