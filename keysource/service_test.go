package keysource_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"shardway/keysource"
)

// shop returns a list of services that use all kinds of routes.
func shop() []keysource.Service {
	return []keysource.Service{
		{Name: "chat", Routes: []string{"chat.example.com", "example.com/chat"}, Shards: 256, Keys: keysource.Spec{Sources: []string{"path:2"}}, Missing: keysource.MissingReject},
		{Name: "default", Routes: []string{"/"}, Shards: 64, Missing: keysource.MissingReject},
		{Name: "files", Routes: []string{"*.example.com/files", "/Files/old"}, Shards: 8, Missing: keysource.MissingReject},
		{Name: "search", Routes: []string{"/search", "example.com/chat/search", "*.eu.example.com"}, Shards: 32, Keys: keysource.Spec{Sources: []string{"query:q"}}, Missing: keysource.MissingLocal},
	}
}

func servicesOf(t *testing.T, list []keysource.Service) *keysource.Services {
	t.Helper()
	services, err := keysource.NewServices(list)
	if err != nil {
		t.Fatal(err)
	}
	return services
}

// match returns the name of the service of a request, "none", "ambiguous" or "bad host".
func match(services *keysource.Services, list []keysource.Service, host, target string) string {
	name, ok := keysource.HostName(nil, []byte(host))
	if !ok {
		return "bad host"
	}
	path := keysource.ParsePath(nil, []byte(target))
	switch index, unambiguous := services.Match(name, &path); {
	case !unambiguous:
		return "ambiguous"
	case index < 0:
		return "none"
	default:
		return list[index].Name
	}
}

func TestRequestsFindTheirService(t *testing.T) {
	list := shop()
	services := servicesOf(t, list)
	for _, tc := range []struct{ host, path, want string }{
		{"chat.example.com", "/", "chat"},
		{"chat.example.com", "/search", "chat"}, // the host decides first
		{"CHAT.Example.COM:8443", "/a/b", "chat"},
		{"chat.example.com.", "/", "chat"},
		{"chat.example.com", "*", "chat"},
		{"chat.example.com", "/a/../b;c//d%2f", "chat"}, // all paths of the host belong to it
		{"example.com", "/chat", "chat"},
		{"example.com", "/chat/", "chat"},
		{"example.com", "/%63hat/x", "chat"},
		{"example.com", "/chat/a;b//c", "chat"},
		{"example.com", "/chat/search/x", "search"},
		{"example.com", "/chatter", "default"},
		{"example.com", "/", "default"},
		{"example.com", "/search?q", "default"}, // the path has no query here
		{"example.com", "/search", "search"},
		{"example.com", "*", "default"},
		{"a.example.com", "/files/x", "files"},
		{"a.b.example.com", "/files", "files"},
		{"a.b.example.com", "/chat", "default"},
		{"example.com", "/files", "default"}, // a wildcard does not stand for its own domain
		{"xexample.com", "/files", "default"},
		{"example.com.evil", "/chat", "default"},
		{"a.eu.example.com", "/files", "search"}, // the longer wildcard applies first
		{"eu.example.com", "/files", "files"},
		{"other", "/Files/old/x", "files"},
		{"", "/search/x", "search"},
		{"", "/x", "default"},
		{"[::1]:80", "/search", "search"},
		{"127.0.0.1", "/search", "search"},
	} {
		if got := match(services, list, tc.host, tc.path); got != tc.want {
			t.Errorf("%s%s: %s, want %s", tc.host, tc.path, got, tc.want)
		}
	}
}

// The apps of two services may contain the same code, so the path must not lead them to different
// services.
func TestPathsOfTwoServicesAreAmbiguous(t *testing.T) {
	list := shop()
	services := servicesOf(t, list)
	for _, target := range []string{
		"/Chat/x", "/CHAT", "/chat;x/y", "/chat%2fx", "/chat%2Fsearch", `/chat\x`, "/chat%5cx", "//chat/x", "/;a/chat/x", "/%3b/chat",
		"/chat/../x", "/x/../chat", "/./chat", "/chat/x/..", "/chat/%2e%2E/x", "/chat/search;x/y", "/chat/Search", "/chat//search", "/chat/./search",
		"/Search", "/search;x", "//search", "/search%2f", "/files/old", "/FILES/OLD/x", "/Files/OLD", "/Files//old", "/Files;x/old",
		"/chat%00", "/chat%00/x", "/ch%00at", "/x%0a/chat", "/chat%7f", "/%c0%af/chat", "/x%c1%9cchat", "/chat%3fx", "/chat%23x", "/chat/search%3F", "/search%00.html",
	} {
		if got := match(services, list, "example.com", target); got != "ambiguous" {
			t.Errorf("%s: %s, want ambiguous", target, got)
		}
	}
	for _, target := range []string{"/filesx;y", "/Files", "/x;y//z", "/chatter;x", `/a\b`, "/what%3f", "/a%23b", "/%c3%a9t%c3%a9", "/x%3f/chat", "/x%20"} { // each reading gives one service
		if got := match(services, list, "example.com", target); got != "default" {
			t.Errorf("%s: %s, want default", target, got)
		}
	}
	only := list[:1]
	chat := servicesOf(t, only)
	for target, want := range map[string]string{"/": "none", "/x/../y": "chat", "/chat;x": "chat", "/chat": "chat"} {
		// All routes that may match belong to one service, so it may get the request.
		if got := match(chat, only, "example.com", target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestInvalidHostsHaveNoService(t *testing.T) {
	list := shop()
	services := servicesOf(t, list)
	for _, host := range []string{
		"chat.example.com:80:90", "chat.example.com..", ".chat.example.com", "chat..example.com", "chat.example.com:x", "user@chat.example.com", "chat.example.com,x",
		"chat.example.com/x", "chat%2eexample.com", "chat.example.com\x00", "chat.example.com ", "ch\u00e4t.example.com", ".", ":80", "[::1", "[]x", "[chat.example.com]", "[chat.example.com]:80", "[]", "[u@chat]", "[::1]x", "[::1%25x]", "[[::1]]", "chat.example.com:123456",
		strings.Repeat("a.", 200) + "example.com",
	} {
		if got := match(services, list, host, "/"); got != "bad host" {
			t.Errorf("%q: %s", host, got)
		}
	}
}

func TestInvalidServicesAreRejected(t *testing.T) {
	for _, tc := range []struct {
		change func(list []keysource.Service) []keysource.Service
		want   string
	}{
		{func(list []keysource.Service) []keysource.Service { list[0].Name = "Chat"; return list }, `services "Chat": "Chat" is not a name of a service; use 1 to 32 lower-case letters`},
		{func(list []keysource.Service) []keysource.Service { list[0].Name = "-a"; return list }, "no dash at either end"},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Name = strings.Repeat("a", 33)
			return list
		}, "1 to 32"},
		{func(list []keysource.Service) []keysource.Service { list[1].Name = "chat"; return list }, "services.chat \"\": the service is there twice"},
		{func(list []keysource.Service) []keysource.Service { list[0].Shards = 0; return list }, `services.chat.shards "0": out of bounds; give a number from 1 to 65536`},
		{func(list []keysource.Service) []keysource.Service { list[0].Shards = 65536; return list }, `services "65640": the services have 65640 shards in all, more than 65536`},
		{func(list []keysource.Service) []keysource.Service { list[0].Routes = nil; return list }, "services.chat.routes \"\": the service has no routes"},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Keys.Sources = []string{"nonsense"}
			return list
		}, "services.chat.key \"nonsense\""},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Keys.Routes = []keysource.Route{{Prefix: "x", Sources: []string{"ip"}}}
			return list
		}, "services.chat.paths \"x\""},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Keys.Routes = []keysource.Route{{Prefix: "/x"}}
			return list
		}, "services.chat.paths \"/x\": no key source is set"},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Keys.Sources, list[1].Keys.Sources = []string{"wrap:cookie:sid"}, []string{"cookie:sid"}
			return list
		}, "services.default.paths \"cookie:sid\": cookie:sid would read the suffix that wrap:cookie:sid adds"},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Missing, list[0].Cookie.Name, list[1].Keys.Sources = keysource.MissingCookie, "sid", []string{"cookie:sid"}
			return list
		}, "services.chat.cookie \"sid\": name: the key source cookie:sid reads the same cookie"},
		{func(list []keysource.Service) []keysource.Service {
			list[0].Missing, list[0].Cookie.Path = keysource.MissingCookie, "x"
			return list
		}, "services.chat.cookie \"x\": path: not a plain path"},
		{func([]keysource.Service) (many []keysource.Service) {
			for i := range 65 {
				many = append(many, keysource.Service{Name: fmt.Sprint("s", i), Routes: []string{fmt.Sprint("/", i)}, Shards: 1})
			}
			return many
		}, `services "65": a cluster has at most 64 services; remove some of them`},
	} {
		_, err := keysource.NewServices(tc.change(shop()))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

func TestInvalidServiceRoutesAreRejected(t *testing.T) {
	for route, want := range map[string]string{
		"":                             "is not a route; write a host",
		"https://example.com":          "remove the scheme",
		"example.com:80/x":             "remove the port",
		"[::1]/x":                      "write a host name",
		"a.*.example.com":              "asterisk in another place",
		"*":                            "asterisk in another place",
		"*.":                           "no valid host",
		"*.*.example.com":              "asterisk",
		"ex ample.com":                 "no valid host",
		"caf\u00e9.example.com":        "in Punycode",
		"a..b":                         "no valid host",
		"a@b.com":                      "no valid host",
		"example.com/a/../b":           "no valid path prefix; write it without",
		"example.com//a":               "no valid path prefix",
		"/a b":                         "no valid path prefix; write blanks as %20",
		"/a;b":                         "no valid path prefix",
		"/":                            `"/" is the same route as "/" of the service default; keep it in one of the services default and new`,
		"Chat.example.com./":           `is the same route as "chat.example.com" of the service chat`,
		"example.com/%63hat":           `is the same route as "example.com/chat" of the service chat`,
		"example.com/chat/":            `is the same route as "example.com/chat" of the service chat`,
		"example.com/CHAT":             "differs only in the case of letters",
		strings.Repeat("a", 254) + "/": "no valid host",
	} {
		list := append(shop(), keysource.Service{Name: "new", Routes: []string{route}, Shards: 1, Missing: keysource.MissingReject})
		_, err := keysource.NewServices(list)
		if err == nil || !strings.HasPrefix(err.Error(), "services.new.routes ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", route, err, want)
		}
	}
	list := shop()
	list[0].Routes = append(list[0].Routes, "chat.example.com/")
	if _, err := keysource.NewServices(list); err == nil || !strings.Contains(err.Error(), `"chat.example.com/" is the same route as "chat.example.com"; keep one of them`) {
		t.Errorf("%v", err)
	}
}

func TestCanonicalFormOfServices(t *testing.T) {
	const want = `{"services":{"chat":{"routes":["*.example.com/a%20b","/","chat.example.com"],"shards":256,"key":["header:x-room"],"paths":{"/x":["path:2"]},"on_missing_key":"cookie","cookie":{"name":"a"}},` +
		`"search":{"routes":["/search"],"shards":1,"key":["json:/q"],"on_missing_key":"reject"}},"body_buffer":4096}`
	chat := keysource.Service{
		Name: "chat", Routes: []string{"Chat.Example.com.", "*.example.com/%61%20b/", "/"}, Shards: 256, Missing: keysource.MissingCookie, Cookie: keysource.CookieScope{Name: "a", Path: "/"},
		Keys: keysource.Spec{Sources: []string{"header:X-Room"}, Routes: []keysource.Route{{Prefix: "/%78", Sources: []string{"path:2"}}}},
	}
	search := keysource.Service{Name: "search", Routes: []string{"/search"}, Shards: 1, Keys: keysource.Spec{Sources: []string{"json:/q"}}, Missing: keysource.MissingReject, Cookie: keysource.CookieScope{Name: "ignored"}}
	for _, list := range [][]keysource.Service{{chat, search}, {search, chat}} {
		got, err := keysource.Config{Services: list, BodyBuffer: 4096}.Canonical()
		if err != nil || got != want {
			t.Fatalf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
	read, err := keysource.ParseConfig(want)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := read.Canonical(); err != nil || again != want {
		t.Errorf("%v: %s", err, again)
	}
	if names := []string{read.Services[0].Name, read.Services[1].Name}; !slices.Equal(names, []string{"chat", "search"}) {
		t.Errorf("services %v", names)
	}
	if fields := read.Fields(); !slices.Equal(fields, []string{"Cookie", "x-room", "Content-Type", "Content-Encoding"}) {
		t.Errorf("fields %v", fields)
	}
	for _, bad := range []string{
		`{"services":{}}`, `{"services":null}`, `{"services":{"a":{"routes":["/"],"shards":1,"key":["ip"],"on_missing_key":"later"}}}`,
		`{"services":{"a":{"routes":["/"],"shards":1,"key":["ip"],"on_missing_key":""}}}`,
		`{"services":{"a":{"routes":["/"],"shards":0,"key":["ip"],"on_missing_key":"reject"}}}`, `{"services":{"a":{"routes":["/x/"],"shards":1,"key":["ip"],"on_missing_key":"reject"}}}`,
		`{"services":{"a":{"routes":["/","/"],"shards":1,"key":["ip"],"on_missing_key":"reject"}}}`, `{"services":{"a":{"routes":["/"],"shards":1,"key":["ip"],"on_missing_key":"reject","id":1}}}`,
		`{"services":{"a":{"routes":["/"],"shards":1,"key":["path:1"],"on_missing_key":"reject"}},"key":["ip"]}`, `{"services":{"a":{"routes":["/"],"shards":1,"key":["path:1"],"on_missing_key":"reject"}},"body_buffer":1}`,
	} {
		if c, err := keysource.ParseConfig(bad); err == nil {
			t.Errorf("%s is %+v", bad, c)
		}
	}
	if _, err := (keysource.Config{Spec: keysource.Spec{Sources: []string{"ip"}}, Services: []keysource.Service{search}}).Canonical(); err == nil {
		t.Error("settings next to the services are accepted")
	}
}

// An app may take any of these parts of a path as they are, or decode them, or ignore the case.
func FuzzServiceOfPath(f *testing.F) {
	list := shop()
	services, err := keysource.NewServices(list)
	if err != nil {
		f.Fatal(err)
	}
	for _, target := range []string{"/chat/search;x", "/CHAT/../search", "//chat%2Fsearch", "/Files/old/..;/x", `/search\..\chat`, "/chat/%2e%2e", "/chat%00/x", "/search%3f;x", "/ch%00at%23"} {
		f.Add("example.com", target)
		f.Add("a.eu.example.com", target)
	}
	f.Fuzz(func(t *testing.T, host, target string) {
		if !strings.HasPrefix(target, "/") {
			return
		}
		result := match(services, list, host, target)
		if result == "ambiguous" || result == "bad host" {
			return
		}
		name, _ := keysource.HostName(nil, []byte(host))
		if again, ok := keysource.HostName(nil, name); !ok || string(again) != string(name) || strings.ToLower(string(name)) != string(name) {
			t.Fatalf("host %q is %q, and then %q", host, name, again)
		}
		readers := pathReaders
		if !strings.ContainsAny(target, "?#\x00") { // no request path contains them
			readers = slices.Concat(pathReaders, endingReaders)
		}
		for i, reader := range readers {
			for _, foldCase := range []bool{false, true} {
				if got := referenceMatch(list, string(name), reader(target), foldCase); got != result {
					t.Fatalf("%q %q belongs to %s, and for reader %d (case %v) to %s", host, target, result, i, foldCase, got)
				}
			}
		}
	})
}

// endingReaders are ways in which apps find the end of a path that they have decoded.
var endingReaders = []func(string) []string{
	// A string in C ends at NUL.
	func(p string) []string { return strings.Split(cutAt(percentDecode(p), "\x00"), "/") },
	func(p string) []string { return strings.Split(path.Clean(cutAt(percentDecode(p), "\x00")), "/") },
	// The decoded path is parsed as a URL again.
	func(p string) []string { return strings.Split(cutAt(percentDecode(p), "?#"), "/") },
	func(p string) []string {
		return mapSegments(strings.Split(cutAt(percentDecode(p), "?#"), "/"), stripParameters)
	},
	// NUL is removed.
	func(p string) []string { return strings.Split(strings.ReplaceAll(percentDecode(p), "\x00", ""), "/") },
}

// cutAt returns the part of text before the first of some characters.
func cutAt(text, characters string) string {
	if end := strings.IndexAny(text, characters); end >= 0 {
		return text[:end]
	}
	return text
}

// referenceMatch returns the name of the service of a path that an app has split into segments.
func referenceMatch(list []keysource.Service, host string, segments []string, foldCase bool) string {
	best, bestRank := "none", -1
	for _, service := range list {
		for _, text := range service.Routes {
			routeHost, prefix, _ := strings.Cut(text, "/")
			rank := 0
			if suffix, isWildcard := strings.CutPrefix(routeHost, "*"); isWildcard && strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
				rank = len(suffix) * 1000
			} else if routeHost == host && host != "" {
				rank = 1000 * 1000
			} else if routeHost != "" {
				continue
			}
			if hasSegments(prefix, segments, foldCase) && rank+len(prefix) > bestRank {
				best, bestRank = service.Name, rank+len(prefix)
			}
		}
	}
	return best
}

// hasSegments reports whether the segments begin with those of prefix.
func hasSegments(prefix string, segments []string, foldCase bool) bool {
	if prefix == "" {
		return true
	}
	if len(segments) > 0 && segments[0] == "" {
		segments = segments[1:]
	}
	parts := strings.Split(prefix, "/")
	return len(segments) >= len(parts) && slices.EqualFunc(parts, segments[:len(parts)], func(a, b string) bool {
		return a == b || foldCase && equalASCIIFold(a, b)
	})
}

func equalASCIIFold(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(a, b)
}

func FuzzCanonicalServices(f *testing.F) {
	f.Add("chat", "chat.example.com", "/a", "path:2", 256)
	f.Add("a-b", "*.x/%2f", "*.X.", "cookie:\"", 1)
	f.Add("A", "//", "/Ab", "header:X", 65536)
	f.Fuzz(func(t *testing.T, name, route, other, source string, shards int) {
		c := keysource.Config{Services: []keysource.Service{
			{Name: name, Routes: []string{route}, Shards: shards, Keys: keysource.Spec{Sources: []string{source}}, Missing: keysource.MissingReject},
			{Name: "other", Routes: []string{other}, Shards: 1, Missing: keysource.MissingCookie},
		}}
		text, err := c.Canonical()
		if err != nil {
			return
		}
		read, err := keysource.ParseConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, err := read.Canonical(); err != nil || again != text {
			t.Fatalf("%s\n%s: %v", text, again, err)
		}
	})
}
