package headerrules_test

import (
	"errors"
	"strings"
	"testing"

	"shardway/internal/headerrules"
	"shardway/internal/valueerr"
)

type (
	rules  = headerrules.Rules
	fields = []headerrules.Field
)

func TestRulesApplyOneAfterTheOther(t *testing.T) {
	general := &rules{Set: fields{{"X-A", "1"}, {"X-B", "1"}}, Add: fields{{"X-C", "1"}}, Remove: []string{"Server"}}
	for name, test := range map[string]struct {
		next          *rules
		lines, remove string
		keeps         string
	}{
		"none":                    {&rules{}, "X-A: 1|X-B: 1|X-C: 1|", "server,x-a,X_B,SERVER,x.a", "X-C,X-AB,X,Serve"},
		"set replaces an earlier": {&rules{Set: fields{{"x-a", "2"}}}, "X-B: 1|X-C: 1|x-a: 2|", "X-A", "X-C"},
		"add keeps an earlier":    {&rules{Add: fields{{"X-C", "2"}}}, "X-A: 1|X-B: 1|X-C: 1|X-C: 2|", "X-A", "X-C"},
		"remove an added one":     {&rules{Remove: []string{"x_c"}}, "X-A: 1|X-B: 1|", "X-A,X-C,X_C", "X-D"},
		"remove, then set again":  {&rules{Remove: []string{"X-C"}, Set: fields{{"Server", "s"}}}, "X-A: 1|X-B: 1|Server: s|", "Server,X-C", "X-D"},
	} {
		edit := headerrules.Compile(general, test.next)
		if got := strings.ReplaceAll(string(edit.Lines()), "\r\n", "|"); got != test.lines {
			t.Errorf("%s: %q, want %q", name, got, test.lines)
		}
		for removed := range strings.SplitSeq(test.remove, ",") {
			if !edit.Removes([]byte(removed)) {
				t.Errorf("%s: %s is not removed", name, removed)
			}
		}
		for kept := range strings.SplitSeq(test.keeps, ",") {
			if edit.Removes([]byte(kept)) {
				t.Errorf("%s: %s is removed", name, kept)
			}
		}
	}
	if edit := headerrules.Compile(&rules{}, &rules{}); edit != nil || edit.RemovesAny() || edit.Lines() != nil {
		t.Errorf("no rules are %+v", edit)
	}
}

// Rules cannot change how messages are framed, the connection, the fields of Shardway or the key.
func TestDangerousRulesAreRefused(t *testing.T) {
	reserved := []string{
		"Connection", "content-length", "Content_Length", "Date", "Expect", "HOST", "Keep-Alive", "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "Transfer_Encoding", "Upgrade", "Via",
		"Shardway-Key", "shardway_epoch", "Shardway.Anything", "Sec-WebSocket-Key",
	}
	ofRequests := []string{"Forwarded", "X-Forwarded-For", "X_Forwarded_Host", "X-Forwarded-Proto", "X-Request-Id", "Last-Event-ID"}
	check := func(config headerrules.Config, want string) {
		t.Helper()
		err := config.Check([]string{"X-Tenant"})
		valueErr := (*valueerr.Error)(nil)
		if want == "" && err != nil || want != "" && (!errors.As(err, &valueErr) || !strings.Contains(err.Error(), want) || valueErr.Remedy == "") {
			t.Errorf("%s: %v, want %q", config.String(), err, want)
		}
	}
	for _, name := range append(reserved, ofRequests...) {
		for _, r := range []rules{{Set: fields{{name, "x"}}}, {Add: fields{{name, "x"}}}, {Remove: []string{name}}} {
			check(headerrules.Config{Request: r}, "needs the field")
		}
	}
	for _, name := range reserved {
		check(headerrules.Config{Response: rules{Set: fields{{name, "x"}}}}, "response.set")
		check(headerrules.Config{Response: rules{Remove: []string{name}}}, "response.remove")
	}
	for _, name := range []string{"", "a b", "a:", "a\r\nb", "ä", "a\x00"} {
		check(headerrules.Config{Request: rules{Remove: []string{name}}}, "not the name")
		check(headerrules.Config{Response: rules{Add: fields{{name, "x"}}}}, "not the name")
	}
	for _, value := range []string{"a\r\nX: y", "a\nb", "a\rb", "\x00", " a", "a\t", "\x7f", "ä"} {
		check(headerrules.Config{Request: rules{Add: fields{{"X", value}}}}, "not the value")
		check(headerrules.Config{Response: rules{Set: fields{{"X", value}}}}, "not the value")
	}
	check(headerrules.Config{Request: rules{Set: fields{{"X_Tenant", "a"}}}}, "read another key")
	check(headerrules.Config{Request: rules{Add: fields{{"x-tenant", "a"}}}}, "read another key")
	check(headerrules.Config{Request: rules{Remove: []string{"X-Tenant"}}}, "")
	check(headerrules.Config{Response: rules{Set: fields{{"X-Tenant", "a"}}}}, "")
	check(headerrules.Config{Request: rules{Set: fields{{"X", "a"}, {"x", "b"}}}}, "twice")
	check(headerrules.Config{Request: rules{Set: fields{{"X", "a"}}, Remove: []string{"x"}}}, "set replaces x already")
	check(headerrules.Config{Request: rules{Set: fields{{"X", strings.Repeat("a", headerrules.MaxSize)}}}}, "more than 8192")
	check(headerrules.Config{
		Request:  rules{Set: fields{{"Authorization", "Basic eA=="}, {"X-Forwarded-Prefix", "/a"}}, Remove: []string{"Accept-Encoding", "Cookie"}},
		Response: rules{Set: fields{{"Cache-Control", "no-store"}, {"X-Empty", ""}, {"X-Tab", "a\tb"}}, Add: fields{{"Set-Cookie", "a=b; Path=/"}}, Remove: []string{"Server"}},
	}, "")
}

// Accepted rules add complete lines only: one for each field, with nothing between them.
func FuzzRules(f *testing.F) {
	f.Add("X-A", "1", "Server")
	f.Add("A\r\nB", "x\r\ny", "\x00")
	f.Fuzz(func(t *testing.T, name, value, removed string) {
		r := rules{Set: fields{{name, value}}, Add: fields{{name, value}}, Remove: []string{removed}}
		for _, direction := range []headerrules.Direction{headerrules.Request, headerrules.Response} {
			if r.Check(direction, nil) != nil {
				continue
			}
			edit := headerrules.Compile(&r)
			if line := name + ": " + value + "\r\n"; string(edit.Lines()) != line+line || strings.ContainsAny(name+value, "\r\n\x00") {
				t.Errorf("%+v adds %q", r, edit.Lines())
			}
			if !edit.Removes([]byte(name)) || !edit.Removes([]byte(removed)) || edit.Removes([]byte("Content-Length")) {
				t.Errorf("%+v removes other fields", r)
			}
		}
	})
}
