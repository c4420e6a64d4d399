package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/config"
)

// One mistake each: the line names the key, the value, the place and the way
// out.
func TestProblemsNameKeyValueSourceAndRemedy(t *testing.T) {
	tests := []struct {
		name string
		args string // separated by blanks
		env  string
		yaml string
		want string // the whole line, or its beginning when it ends in "…"
	}{
		{name: "unknown flag", args: "--lesae 1s", want: `--lesae (flag): unknown flag; did you mean --lease? shardway run --help lists them all`},
		{name: "flag without value", args: "--node --insecure", want: `node (flag): the value is missing; write --node ID`},
		{name: "argument", args: "a", want: `a (argument): nothing is expected here; …`},
		{name: "misspelt variable", env: "SHARDWAY_DRAIN_TIMOUT=5s", want: `SHARDWAY_DRAIN_TIMOUT (environment): unknown setting; did you mean SHARDWAY_DRAIN_TIMEOUT?`},
		{name: "secret for its file", env: "SHARDWAY_SECRET=sw1_x", want: `SHARDWAY_SECRET (environment): unknown setting; did you mean SHARDWAY_SECRET_FILE?`},
		{name: "unreadable file", args: "--config x.yaml", want: `config = "x.yaml" (flag): open x.yaml: file does not exist; name a file that can be read`},
		{name: "unknown key", yaml: "node: a\nqueue_wiat: 5s\n", want: `queue_wiat (f.yaml:2): unknown key; did you mean queue_wait?`},
		{name: "dashes in the file", yaml: "queue-wait: 5s\n", want: `queue-wait (f.yaml:1): unknown key; did you mean queue_wait?`},
		{name: "the file in the file", yaml: "config: g.yaml\n", want: `config (f.yaml:1): unknown key; remove it`},
		{name: "key far from any", yaml: "kubernetes: 1\n", want: `kubernetes (f.yaml:1): unknown key; remove it`},
		{name: "double key", yaml: "node: a\nnode: b\n", want: `f.yaml:2: "node" is there twice, first in line 1; keep one of them`},
		{name: "double route", yaml: "routes:\n  /a: ip\n  /a: host\n", want: `routes (f.yaml:3): "/a" is there twice, first in line 2; keep one of them`},
		{name: "broken YAML", yaml: "node: [a\n", want: `f.yaml:1: …`},
		{name: "not a table", yaml: "- a\n", want: `f.yaml:1: the file is not a table of settings; write lines like node: a`},
		{name: "two documents", yaml: "node: a\n---\nnode: b\n", want: `f.yaml:3: a second document begins here; keep all settings in one`},
		{name: "list for a text", yaml: "\nnode: [a]\n", want: `node (f.yaml:2): the value has the wrong form; write node: ID`},
		{name: "table for a list", yaml: "join: {a: b}\n", want: `join (f.yaml:1): the value has the wrong form; write join: [ADDR]`},
		{name: "nothing for a number", yaml: "shards:\n", want: `shards (f.yaml:1): the value has the wrong form; write shards: 1024`},
		{name: "route in two spellings", yaml: "routes:\n  /a: ip\n  /%61: host\n", want: `routes (f.yaml:1): "/a" is the same path prefix as "/%61"; keep one of them`},
		{name: "routes no table", yaml: "routes: host\n", want: `routes (f.yaml:1): the value is not a table; write one line for each prefix, like /api: [header:X-Tenant, ip]`},
		{name: "route without slash", yaml: "routes:\n  api: host\n", want: `routes (f.yaml:1): "api" is not a path prefix; begin it with a slash`},
		{name: "route without source", yaml: "routes:\n  /api: []\n", want: `routes (f.yaml:1): no key source is set for "/api"; …`},
		{name: "route with a bad source", yaml: "routes:\n  /api: [ip, header]\n", want: `routes (f.yaml:1): "/api": "header": the source "header" needs the name of a header; write header:X-Shard-Key`},
		{name: "JSON key without a pointer", args: "--key json:id", want: `key = "json:id" (flag): "json:id": the source "json" needs a JSON pointer (RFC 6901) without blanks; write json:/user/id for the member "id" of the member "user"`},
		{name: "JSON key with a bad escape", args: "--key json:/a~2", want: `key = "json:/a~2" (flag): "json:/a~2": the source "json" needs a JSON pointer (RFC 6901) without blanks; …`},
		{name: "form key without a field", yaml: "routes:\n  /api: ['form:']\n", want: `routes (f.yaml:1): "/api": "form:": the source "form" needs a name without blanks; write form:user`},
		{name: "mint everywhere", args: "--key mint", want: `key = "mint" (flag): every request would get a new key, so no client could return to its object; put a source before mint, such as cookie:sid, or set mint for a path under routes`},
		{name: "mint with a method everywhere", args: "--key mint:POST", want: `key = "mint:POST" (flag): every request would get a new key, …`},
		{name: "mint before others", args: "--key mint:POST,path:2", want: `key = "mint:POST,path:2" (flag): a source follows mint; …`},
		{name: "mint in the middle", args: "--key ip,mint,host", want: `key = "ip,mint,host" (flag): a source follows mint; put mint last: it is used if no other source has a key`},
		{name: "mint before others under routes", yaml: "routes:\n  /api: [mint, path:2]\n", want: `routes (f.yaml:1): "/api": a source follows mint; put mint last: it is used if no other source has a key`},
		{name: "mint by name", yaml: "routes:\n  /api: [mint:x]\n", want: `routes (f.yaml:1): "/api": "mint:x": the source "mint" accepts only a request method in upper case; write mint:POST, or mint for all methods`},
		{name: "bare duration", env: "SHARDWAY_LEASE=5", want: `lease = "5" (SHARDWAY_LEASE): not a duration; name the unit: 5s or 5ms`},
		{name: "duration", args: "--lease soon", want: `lease = "soon" (flag): not a duration; write it like 500ms, 2.5s or 1m`},
		{name: "short duration", args: "--remove-dead-after 1ms", want: `remove-dead-after = "1ms" (flag): out of bounds; give a duration from 1s to 720h, or off`},
		{name: "size", yaml: "queue_bytes: 64MB\n", want: `queue-bytes = "64MB" (f.yaml:1): not a size; write it like 64KiB, 64MiB or 1GiB`},
		{name: "small size", args: "--queue-bytes 12", want: `queue-bytes = "12B" (flag): out of bounds; give a size from 1KiB to 1TiB`},
		{name: "number", args: "--shards many", want: `shards = "many" (flag): not a whole number; give a number from 1 to 65536`},
		{name: "large number", args: "--shards 100000", want: `shards = "100000" (flag): out of bounds; give a number from 1 to 65536`},
		{name: "switch", yaml: "insecure: yes\n", want: `insecure = "yes" (f.yaml:1): neither true nor false; write true or false`},
		{name: "choice", args: "--takeover none", want: `takeover = "none" (flag): unknown value; choose one of timeout, lease, immediate`},
		{name: "node", args: "--node a/b", want: `node = "a/b" (flag): not a name; …`},
		{name: "no data", args: "--data=", want: `data (flag): the node has no directory for its identity; set a directory, such as ./data`},
		{name: "address", args: "--listen 8080", want: `listen = "8080" (flag): not an address; write host:port, like 127.0.0.1:8080, :8080 or [::1]:8080`},
		{name: "IPv6 without brackets", args: "--listen ::1:8080", want: `listen = "::1:8080" (flag): not an address; …`},
		{name: "host", args: "--listen a_b!:8080", want: `listen = "a_b!:8080" (flag): "a_b!" is neither an IP address nor a name; …`},
		{name: "zone", args: "--listen [fe80::1%a!]:8080", want: `listen = "[fe80::1%a!]:8080" (flag): "fe80::1%a!" is neither an IP address nor a name; …`},
		{name: "port zero", args: "--listen :0", want: `listen = ":0" (flag): "0" is not a port; give a fixed port from 1 to 65535`},
		{name: "no address", args: "--peer=", want: `peer (flag): it is empty; set host:port`},
		{name: "advertised wildcard", args: "--gossip-advertise 0.0.0.0:7946", want: `gossip-advertise = "0.0.0.0:7946" (flag): other nodes cannot connect to an address without a host; …`},
		{name: "join without host", args: "--join :7946", want: `join = ":7946" (flag): ":7946": other nodes cannot connect to an address without a host; …`},
		{name: "README's three machines without a secret", yaml: "upstream: http://127.0.0.1:9000\njoin: [10.0.0.1, 10.0.0.2, 10.0.0.3]\nbootstrap_expect: 3\n", want: `gossip = "127.0.0.1:7946" (default): join names 10.0.0.1, and that machine cannot reach a loopback address; set --secret-file to the cluster's secret (shardway keygen creates one), so that the node listens on all addresses; or set an address of this machine with --gossip, and add --insecure if all hosts that can reach it are trusted`},
		{name: "insecure, and on loopback all the same", args: "--insecure --join 127.0.0.1,[2001:db8::1]:7946", want: `gossip = "127.0.0.1:7946" (default): join names [2001:db8::1]:7946, and that machine cannot reach a loopback address; …`},
		{name: "gossip on loopback, join elsewhere", args: "--secret-file s --gossip 127.0.0.1:7001 --join 10.0.0.1", want: `gossip = "127.0.0.1:7001" (flag): join names 10.0.0.1, and that machine cannot reach a loopback address; name an address of this machine with --gossip, like :7001`},
		{name: "peer on loopback, join elsewhere", args: "--secret-file s --peer localhost:7947 --join 10.0.0.1", want: `peer = "localhost:7947" (flag): join names 10.0.0.1, …`},
		{name: "gossip advertised on loopback", args: "--secret-file s --gossip-advertise 127.0.0.1:7946 --join 10.0.0.1", want: `gossip-advertise = "127.0.0.1:7946" (flag): join names 10.0.0.1, where a loopback address means that machine itself; …`},
		{name: "SRV with a port", args: "--join _gossip._tcp.a:1", want: `join = "_gossip._tcp.a:1" (flag): "_gossip._tcp.a:1": the port comes with the SRV records of a name that starts with _; write _gossip._tcp.a without :1`},
		{name: "SRV in part", args: "--join _gossip.a", want: `join = "_gossip.a" (flag): "_gossip.a": not the name of SRV records; …`},
		{name: "join", args: "--join a,b! ", want: `join = "a,b!" (flag): "b!": neither an address nor a name; …`},
		{name: "endpoint form", args: "--endpoint grpc", want: `endpoint = "grpc" (flag): "grpc" is not an endpoint; write it like grpc=10.0.0.5:9000`},
		{name: "endpoint name", args: "--endpoint G=a:1", want: `endpoint = "G=a:1" (flag): "G": no name for an endpoint; …`},
		{name: "mdns without a secret", args: "--join 10.0.0.1,mdns --insecure --gossip :7946 --peer :7947", want: `join = "10.0.0.1,mdns" (flag): mdns finds nodes by multicast DNS, and every host of the network can respond; set --secret-file to the cluster's secret (shardway keygen creates one), or replace mdns with addresses of nodes`},
		{name: "mdns on loopback", args: "--join mdns --secret-file s --gossip 127.0.0.1:7946", want: `gossip = "127.0.0.1:7946" (flag): join is mdns, and other machines cannot reach a loopback address; name an address of this machine, like :7946`},
		{name: "mdns with a peer port on loopback", args: "--join mdns --secret-file s --peer 127.0.0.1:7947", want: `peer = "127.0.0.1:7947" (flag): join is mdns, and other machines cannot reach a loopback address; …`},
		{name: "mdns advertised on loopback", args: "--join mdns --secret-file s --gossip-advertise 127.0.0.1", want: `gossip-advertise = "127.0.0.1:7946" (flag): join is mdns, and other machines cannot reach a loopback address; …`},
		{name: "mdns in capitals", args: "--join mDNS --secret-file s", want: `join = "mDNS" (flag): "mDNS": the word for multicast DNS has small letters; write mdns`},
		{name: "endpoint of the node", args: "--endpoint http=a:1", want: `endpoint = "http=a:1" (flag): "http": nodes announce their own address under this name; choose another name`},
		{name: "endpoint twice", args: "--endpoint a=a:1 --endpoint a=b:1", want: `endpoint = "a=a:1,a=b:1" (flag): "a" is there twice; …`},
		{name: "endpoint address", args: "--endpoint a=:1", want: `endpoint = "a=:1" (flag): "a": other nodes cannot connect to an address without a host; …`},
		{name: "webhook without a scheme", args: "--webhook hub.example/hidden", want: `webhook = "…" (flag): not a URL; write it like https://events.example.com/shardway`},
		{name: "webhook with a fragment", args: "--webhook https://u:hidden@hub.example/hidden?hidden#hidden", want: `webhook = "https://hub.example/…" (flag): it contains a fragment (#), which HTTP does not send; …`},
		{name: "webhook of another scheme", yaml: "webhook: nats://u:hidden@hub.example/\n", want: `webhook = "…" (f.yaml:1): the scheme is neither http nor https; …`},
		{name: "webhook in a list", yaml: "webhook: [https://u:hidden@hub.example/]\n", want: `webhook (f.yaml:1): the value has the wrong form; …`},
		{name: "network", args: "--trusted-proxies 10.0.0.0/33", want: `trusted-proxies = "10.0.0.0/33" (flag): "10.0.0.0/33" is not a network; …`},
		{name: "unix upstream without a root", args: "--upstream unix:app.sock", want: `upstream = "unix:app.sock" (flag): the path of the socket does not begin at the root; …`},
		{name: "unix upstream, three slashes", args: "--upstream unix:///run/app.sock", want: `upstream = "unix:///run/app.sock" (flag): the path of the socket does not begin at the root; …`},
		{name: "certificate without its key", args: "--tls-cert c.pem", want: `tls-cert = "c.pem" (flag): it requires tls-key; name both`},
		{name: "lame duck", args: "--lame-duck 30s", want: `lame-duck = "30s" (flag): breaks lame-duck < shutdown-timeout: …`},
		{name: "TLS upstream", args: "--upstream https://a", want: `upstream = "https://a" (flag): apps behind TLS are not supported in this version; …`},
		{name: "upstream without scheme", args: "--upstream 127.0.0.1:9000", want: `upstream = "127.0.0.1:9000" (flag): not a URL; write http://host:port, like http://127.0.0.1:9000, or unix:/path`},
		{name: "upstream with path", args: "--upstream http://a/b", want: `upstream = "http://a/b" (flag): only a host and a port have a place here; …`},
		{name: "upstream is this node", args: "--upstream http://localhost:8080", want: `upstream = "http://localhost:8080" (flag): this node listens there itself (listen :8080); name the address of the app`},
		{name: "long app version", args: "--app-version " + strings.Repeat("x", 65), want: `app-version = "` + strings.Repeat("x", 65) + `" (flag): it has 65 bytes; use at most 64`},
		{name: "app version beyond ASCII", args: "--app-version 2.1ä", want: `app-version = "2.1ä" (flag): not printable ASCII; …`},
		{name: "role", args: "--role a,b!", want: `role = "a,b!" (flag): "b!" is not a role; use up to 32 letters, digits, dots, dashes and underscores, with a letter or digit at both ends`},
		{name: "role twice", args: "--role app --role app", want: `role = "app,app" (flag): "app" is there twice; …`},
		{name: "metadata form", args: "--meta rack", want: `meta = "rack" (flag): "rack" is not a metadata entry; write it like rack=r7; …`},
		{name: "metadata with a comma", args: "--meta note=a,b", want: `meta = "note=a,b" (flag): "b" is not a metadata entry; …`},
		{name: "metadata key twice", args: "--meta k=1,k=2", want: `meta = "k=1,k=2" (flag): "k" is there twice; …`},
		{name: "too much metadata", args: "--meta k=" + strings.Repeat("x", 255), want: `meta = "k=` + strings.Repeat("x", 255) + `" (flag): all metadata together has 257 bytes; use at most 256; …`},
		{name: "region", args: "--region -x", want: `region = "-x" (flag): not a name; …`},
		{name: "no failed check", args: "--health-fall 0", want: `health-fall = "0" (flag): …`},
		{name: "checks without pause", args: "--health-interval 1ms", want: `health-interval = "1ms" (flag): …`},
		{name: "probe path", args: "--probe-path /p?x", want: `probe-path = "/p?x" (flag): a path with a query; leave out what begins with the ?: the query of a request is not looked at`},
		{name: "health", args: "--health healthz", want: `health = "healthz" (flag): not a path; write it like /healthz`},
		{name: "hooks", args: "--upstream http://a --hooks hooks", want: `hooks = "hooks" (flag): neither a URL nor a path; write an address of its own, like http://127.0.0.1:9001 or unix:/path, or a path of the app, like /hooks`},
		{name: "hooks below the root", args: "--upstream http://a --hooks /", want: `hooks = "/" (flag): the path has an empty segment; write it like /hooks, of letters, digits, -, _ and single slashes between them`},
		{name: "hooks with a slash at the end", args: "--upstream http://a --hooks /hooks/", want: `hooks = "/hooks/" (flag): the path has an empty segment; …`},
		{name: "hooks that are spelled oddly", args: "--upstream http://a --hooks /ho%6Fks", want: `hooks = "/ho%6Fks" (flag): the path has a byte in it that some write in two ways; …`},
		{name: "hooks with dots", args: "--upstream http://a --hooks /a/../b", want: `hooks = "/a/../b" (flag): the path has a byte in it that some write in two ways; …`},
		{name: "hooks with a query", args: "--upstream http://a --hooks http://b:1/hooks?x", want: `hooks = "http://b:1/hooks?x" (flag): only a host, a port and a path have a place here; …`},
		{name: "hooks behind TLS", args: "--upstream http://a --hooks https://b:1/hooks", want: `hooks = "https://b:1/hooks" (flag): apps behind TLS are not supported in this version; …`},
		{name: "hooks that clients would reach", args: "--upstream http://localhost:9000 --hooks http://127.0.0.1:9000/hooks", want: `hooks = "http://127.0.0.1:9000/hooks" (flag): this is the address of the app (upstream), so clients could call the hooks; set only a path, such as /hooks, which clients cannot request, or use a separate address`},
		{name: "hooks that clients would reach by a socket", args: "--upstream unix:/a --hooks unix:/a", want: `hooks = "unix:/a" (flag): this is the address of the app (upstream), …`},
		{name: "hooks at this node", args: "--upstream http://a:1 --hooks http://127.0.0.1:8080/hooks", want: `hooks = "http://127.0.0.1:8080/hooks" (flag): this node listens there itself (listen :8080); set the address of the app's hooks`},
		{name: "long release", args: "--release-timeout 61s", want: `release-timeout = "1m1s" (flag): out of bounds; give a duration from 10ms to 1m`},
		{name: "hooks and a short wait", args: "--upstream http://a --hooks /hooks --queue-wait 10s", want: `queue-wait = "10s" (flag): breaks queue-wait > drain-timeout + release-timeout + 1s: requests for a shard that moves wait until its app has released it; raise queue-wait above 10s, or lower release-timeout or drain-timeout`},
		{name: "hooks and a short shutdown", args: "--upstream http://a --hooks /hooks --shutdown-timeout 10s", want: `shutdown-timeout = "10s" (flag): breaks shutdown-timeout ≥ drain-timeout + release-timeout + 2s: a node that stops hands its shards over (drain-timeout + release-timeout + 1s) and leaves (1s); raise shutdown-timeout to 11s, or lower drain-timeout`},
		{name: "key source", args: "--key heeder:X", want: `key = "heeder:X" (flag): "heeder:X": "heeder" is not a key source; did you mean "header"? …`},
		{name: "no key source", args: "--key=", want: `key (flag): no key source is set; set at least one, such as header:X-Shard-Key`},
		{name: "local without an app", args: "--on-missing-key local", want: `on-missing-key = "local" (flag): a gateway has no app of its own; …`},
		{name: "gossip beyond loopback", args: "--gossip :7946", want: `gossip = ":7946" (flag): other hosts could reach it, and it is not protected; set --secret-file to a secret of the cluster (shardway keygen creates one), or listen on loopback (127.0.0.1:7946), or add --insecure if all hosts that can reach it are trusted`},
		{name: "admin beyond loopback with a secret", args: "--secret-file s --admin :8081", want: `admin = ":8081" (flag): other hosts could reach it, and it is not protected; require authentication (--admin-read-token-file, --admin-write-token-file, or client certificates), or listen on loopback (127.0.0.1:8081), or …`},
		{name: "gossip beyond loopback with own certificates", args: "--tls-ca a --tls-node-cert b --tls-node-key c --gossip :7946", want: `gossip = ":7946" (flag): other hosts could reach it, …`},
		{name: "certificate without key", args: "--admin-cert c", want: `admin-cert = "c" (flag): it requires admin-key; name both`},
		{name: "client certificates without TLS", args: "--admin-write-ca c", want: `admin-write-ca = "c" (flag): client certificates require TLS, which the admin port does not use; set --admin-cert and --admin-key`},
		{name: "host with a port", args: "--admin-host a:1", want: `admin-host = "a:1" (flag): "a:1": not a name; write it without scheme and port, like node-1.example.com`},
		{name: "unknown optimization", args: "--disable epoll", want: `disable = "epoll" (flag): "epoll": no optimization has this name; use event-loop, multiplexing, parking or splice`},
		{name: "peer beyond loopback", args: "--peer 10.0.0.1:7947", want: `peer = "10.0.0.1:7947" (flag): other hosts could reach it, …`},
		{name: "admin beyond loopback", args: "--admin [::]:8081", want: `admin = "[::]:8081" (flag): other hosts could reach it, …`},
		{name: "port taken by another setting", args: "--admin 127.0.0.1:8080", want: `admin = "127.0.0.1:8080" (flag): the same address as listen (:8080); use another port`},
		{name: "more starters than voters", args: "--bootstrap-expect 5 --max-voters 3", want: `bootstrap-expect = "5" (flag): the nodes that start a cluster are its first voters, and only 3 may vote (max-voters); set it to at most 3; further nodes join automatically`},
		{name: "body larger than the room", args: "--body-buffer 2MiB --queue-bytes 1MiB", want: `body-buffer = "2MiB" (flag): a body of this size does not fit in the queue: queue-bytes is 1MiB; …`},
		{name: "heartbeat", args: "--heartbeat 200ms", want: `heartbeat = "200ms" (flag): breaks heartbeat ≤ lease / 4: …`},
		{name: "default heartbeat under a short lease", args: "--lease 200ms", want: `heartbeat = "100ms" (default): breaks heartbeat ≤ lease / 4: a lease survives three lost heartbeats, and a node notices when it was paused for a quarter of a lease; lower heartbeat to 50ms, or raise lease to 400ms`},
		{name: "dead-after", args: "--dead-after 1.1s", want: `dead-after = "1.1s" (flag): breaks 2 × lease + 10 % < dead-after: …`},
		{name: "stream grace", args: "--stream-grace 6s", want: `stream-grace = "6s" (flag): breaks stream-grace ≤ drain-timeout: …`},
		{name: "shutdown", args: "--drain-timeout 29s", want: `shutdown-timeout = "30s" (default): breaks shutdown-timeout ≥ drain-timeout + 2s: …`},
		{name: "hold grace", args: "--on-shutdown hold --hold-grace 14s", want: `hold-grace = "14s" (flag): breaks hold-grace < queue-wait - 1s: …`},
		{name: "restart grace", args: "--restart-grace 15s", want: `restart-grace = "15s" (flag): breaks restart-grace < queue-wait: …`},
		{name: "dead server", args: "--remove-dead-after 4s", want: `remove-dead-after = "4s" (flag): breaks remove-dead-after ≥ 2 × dead-after: …`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := strings.Fields(tt.args)
			if tt.yaml != "" {
				args = append(args, "--config=f.yaml")
			}
			_, err := config.Load(args, []string{tt.env}, yamlFile(tt.yaml))
			ps := problems(t, err)
			if len(ps) != 1 {
				t.Fatalf("%d problems, want 1:\n%v", len(ps), err)
			}
			got := ps[0].String()
			head, cut := strings.CutSuffix(tt.want, "…")
			if matches := got == tt.want || cut && strings.HasPrefix(got, head); !matches {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if ps[0].Remedy == "" {
				t.Error("there is no remedy")
			}
		})
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	_, err := config.Load(
		[]string{"--config=f.yaml", "--bogus", "--shards=0", "--gossip=0.0.0.0:7946"},
		[]string{"SHARDWAY_LEASE=x", "SHARDWAY_TAKEOFER=timeout"},
		yamlFile("nod: a\nqueue_bytes: lots\nkey: [path:0]\n"))
	var keys []string
	for _, p := range problems(t, err) {
		keys = append(keys, p.Key)
	}
	want := "--bogus SHARDWAY_TAKEOFER nod lease queue-bytes shards key gossip"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("problems with %s, want %s", got, want)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(keys) {
		t.Errorf("the error has %d lines, want %d", lines, len(keys))
	}
}

// A value that cannot be read says nothing about the others: no conclusions are
// drawn from the default that stands in its place.
func TestNoConclusionsFromAnUnreadableValue(t *testing.T) {
	_, err := config.Load([]string{"--lease=x", "--heartbeat=1s", "--dead-after=11s"}, nil, files(nil))
	if ps := problems(t, err); len(ps) != 1 || ps[0].Key != "lease" {
		t.Errorf("problems = %v, want one with lease", err)
	}
}

func TestInsecureOpensTheThreePorts(t *testing.T) {
	_, err := config.Load([]string{"--insecure", "--gossip=:7946", "--peer=0.0.0.0:7947", "--admin=10.0.0.1:8081"}, nil, files(nil))
	if err != nil {
		t.Error(err)
	}
}

func TestSecretOpensWhatItProtects(t *testing.T) {
	c, err := config.Load([]string{"--secret-file=s"}, nil, files(nil))
	if err != nil || c.Gossip != ":7946" || c.Peer != ":7947" || c.Admin != "127.0.0.1:8081" {
		t.Errorf("with a secret: gossip %q, peer %q, admin %q, %v", c.Gossip, c.Peer, c.Admin, err)
	}
	c, err = config.Load([]string{"--secret-file=s", "--gossip=127.0.0.1:7946", "--peer=10.0.0.1:7947"}, nil, files(nil))
	if err != nil || c.Gossip != "127.0.0.1:7946" || c.Peer != "10.0.0.1:7947" {
		t.Errorf("what was said holds: gossip %q, peer %q, %v", c.Gossip, c.Peer, err)
	}
	for _, guard := range []string{"--admin-read-token-file=r", "--admin-write-token-file=w"} {
		if _, err = config.Load([]string{guard, "--admin=:8081"}, nil, files(nil)); err != nil {
			t.Errorf("admin with %s: %v", guard, err)
		}
	}
	if c, err = config.Load([]string{"--tls-ca=a", "--tls-node-cert=b", "--tls-node-key=c", "--peer=10.0.0.1:7947"}, nil, files(nil)); err != nil || !c.UsesPeerTLS() {
		t.Errorf("peer with own certificates: %v", err)
	}
}

// Names may be of this machine, and something else may stand before the peer port.
func TestNodesThatMayBeReachedAreNotRefused(t *testing.T) {
	for _, args := range []string{
		"--join=127.0.0.1:7001,localhost,[::1]:7002",
		"--join=node-a,node-b",
		"--secret-file=s --join=10.0.0.1",
		"--secret-file=s --join=10.0.0.1 --peer=127.0.0.1:7947 --peer-advertise=10.0.0.5:7947",
		"--insecure --join=10.0.0.1 --gossip=:7946 --peer=10.0.0.5:7947",
	} {
		if _, err := config.Load(strings.Fields(args), nil, files(nil)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestLoopbackNeedsNoSecret(t *testing.T) {
	_, err := config.Load([]string{"--gossip=[::1]:7946", "--peer=localhost:7947", "--admin=127.0.0.9:8081"}, nil, files(nil))
	if err != nil {
		t.Error(err)
	}
}

func TestAppOnAnotherHostMayHaveTheSamePort(t *testing.T) {
	if _, err := config.Load([]string{"--upstream=http://app:8080"}, nil, files(nil)); err != nil {
		t.Error(err)
	}
}

func TestValidateJudgesAConfigMadeInCode(t *testing.T) {
	c := config.Default()
	if err := c.Validate(); err != nil {
		t.Fatalf("Default is refused: %v", err)
	}
	c.Lease, c.Shards = time.Second, 0
	ps := problems(t, c.Validate())
	if len(ps) != 1 || ps[0].Key != "shards" {
		t.Errorf("Validate with no shards: %v", ps)
	}
	c.Keys = nil
	if ps := problems(t, c.Validate()); len(ps) != 2 {
		t.Errorf("Validate with no shards and no keys: %v", ps)
	}
}

// Nodes exchange the key configuration, so its size is bounded.
func TestTooManyRoutesAreRefused(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("routes:\n")
	for i := range 600 {
		fmt.Fprintf(&yaml, "  /service-%d: [header:X-Tenant]\n", i)
	}
	_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(yaml.String()))
	ps := problems(t, err)
	if len(ps) != 1 || ps[0].Key != "routes" || ps[0].Origin != "f.yaml:1" || ps[0].Remedy != "use fewer or shorter routes" || !strings.HasSuffix(ps[0].Message, " bytes, more than 16384") {
		t.Errorf("%v", err)
	}
}

func TestShortDrainShortensTheDefaultStreamGrace(t *testing.T) {
	c, err := config.Load([]string{"--drain-timeout=200ms"}, nil, files(nil))
	if err != nil || c.StreamGrace != 200*time.Millisecond {
		t.Errorf("StreamGrace = %v, %v; want 200ms", c.StreamGrace, err)
	}
}

func TestMulticastDNSIsAcceptedWithASecret(t *testing.T) {
	for _, args := range []string{"--join mdns", "--join mdns,10.0.0.1 --join b.example", "--join mdns --peer 127.0.0.1:7947 --peer-advertise 10.0.0.1:7948", "--join mdns --gossip 10.0.0.1:7946 --peer :7947"} {
		if _, err := config.Load(strings.Fields("--secret-file s "+args), nil, files(nil)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}
