package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"

	"shardway/internal/problem"
)

// The page is one answer: what it shows, its style and its script. It stands in files of
// their own so that they can be read.
//
//go:embed web
var web embed.FS

// scripts are put together in this order: each may use what those before it define.
func scripts() []string {
	return []string{"dom", "ask", "hash", "verdict", "nodes", "shards", "changes", "locate", "live"}
}

// page is what /status is in a browser. It does not change.
type page struct {
	template  *template.Template
	style     template.CSS
	script    template.JS
	policy    string // Content-Security-Policy
	loginPage []byte // the page for who has shown nothing: it knows nothing
}

// newPage panics if the page is broken: it is part of the program.
func newPage() *page {
	read := func(name string) string {
		b, err := web.ReadFile("web/" + name)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	var script strings.Builder
	script.WriteString("(() => {\n'use strict';\n")
	for _, name := range scripts() {
		script.WriteString(read(name + ".js"))
	}
	script.WriteString("})();\n")
	p := &page{
		template: template.Must(template.New("page").Parse(read("page.html"))),
		style:    template.CSS(read("page.css")), //nolint:gosec // ours
		script:   template.JS(script.String()),   //nolint:gosec // ours
	}
	// Only this script and this style count, whatever else comes to stand in the page, and
	// the script has no way to make markup of text.
	p.policy = "default-src 'none'; script-src " + cspHash(string(p.script)) + "; style-src " + cspHash(string(p.style)) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; require-trusted-types-for 'script'; trusted-types 'none'"
	p.loginPage = p.render(view{Locked: true, Columns: columns(), Title: "Shardway", Severity: "none", Headline: "This admin port asks who is there"})
	return p
}

// hashOf names a script or style in a Content-Security-Policy.
func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// render panics only if the page is broken: a view has nothing that can fail.
func (p *page) render(v view) []byte {
	v.Style, v.Script = p.style, p.script
	var b bytes.Buffer
	if err := p.template.Execute(&b, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// write answers with a rendered page.
func (p *page) write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	writeStatus(w, status, "text/html; charset=utf-8", body)
}

// unlocks reports whether a request that showed nothing gets the page that asks for a
// token: a browser's, for the page itself, by a name of this port. By any other name it
// would be the page of somebody who could read what is typed into it.
func (s *Server) wantsLoginPage(a *Access, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return (r.URL.Path == "/status" || r.URL.Path == "/") && r.URL.RawQuery == "" &&
		len(r.Header.Values("Authorization")) == 0 && prefersHTML(r.Header.Values("Accept")) &&
		r.Host != "" && a.isValidHost(r.Host) && s.checkOrigin(r) == nil
}

// unlock asks for a token. It is the same answer for everybody, tells nothing of the
// cluster, and is no refusal: nothing was tried.
func (s *Server) writeLoginPage(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="shardway"`)
	w.Header().Set("Shardway-Error", string(problem.Unauthorized))
	w.Header().Set("Vary", "Accept")
	s.page.write(w, http.StatusUnauthorized, s.page.loginPage)
}
