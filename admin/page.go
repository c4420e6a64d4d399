package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"

	"shardway/admin/auth"
	"shardway/internal/problem"
)

// web contains the template, the style and the scripts of the dashboard. The server delivers them
// as one page.
//
//go:embed web
var web embed.FS

// scripts returns the names of the scripts in the order of their definitions: each may use the previous ones.
func scripts() []string {
	return []string{"dom", "ask", "hash", "verdict", "nodes", "services", "shards", "changes", "locate", "live"}
}

// page is the dashboard, which browsers get at /status. It is immutable.
type page struct {
	template  *template.Template
	style     template.CSS
	script    template.JS
	policy    string // Content-Security-Policy
	loginPage []byte // login page, without information about the cluster
}

// newPage panics if the embedded files are invalid.
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
		script.WriteString(withoutComments(read(name + ".js")))
	}
	script.WriteString("})();\n")
	p := &page{
		template: template.Must(template.New("page").Parse(read("page.html"))),
		style:    template.CSS(read("page.css")), //nolint:gosec // trusted: embedded in the program
		script:   template.JS(script.String()),   //nolint:gosec // trusted: embedded in the program
	}
	// The browser runs only this script and this style, even if other markup got into the page, and
	// the script cannot turn text into markup.
	p.policy = "default-src 'none'; script-src " + cspHash(string(p.script)) + "; style-src " + cspHash(string(p.style)) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; require-trusted-types-for 'script'; trusted-types 'none'"
	p.loginPage = p.render(view{Locked: true, Columns: columns(), Title: "Shardway", Severity: "none", Headline: "This admin port asks who is there"})
	return p
}

// withoutComments returns a script without the lines that contain only a comment. Browsers do not need them, and the page
// stays smaller. No string of a script may contain such a line.
func withoutComments(script string) string {
	var kept strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// cspHash returns the hash source of a script or style for a Content-Security-Policy.
func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// render renders a view. It panics if the template is invalid; a view itself cannot cause an
// error.
func (p *page) render(v view) []byte {
	v.Style, v.Script = p.style, p.script
	var b bytes.Buffer
	if err := p.template.Execute(&b, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// write responds with a rendered page.
func (p *page) write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	writeStatus(w, status, "text/html; charset=utf-8", body)
}

// wantsLoginPage reports whether a request without credentials gets the login page: a request of a
// browser for the dashboard with a valid host name. With another host name, a foreign page could
// read the token that the user types.
func (s *Server) wantsLoginPage(access *auth.Access, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	isDashboard := (r.URL.Path == "/status" || r.URL.Path == "/") && r.URL.RawQuery == ""
	isBrowser := prefersHTML(r.Header.Values("Accept")) && r.Host != ""
	hasCredentials := len(r.Header.Values("Authorization")) > 0
	if !isDashboard || !isBrowser || hasCredentials {
		return false
	}
	return access.ValidHost(r.Host) && s.checkOrigin(r) == nil
}

// writeLoginPage responds with the login page. It is the same for every client and contains nothing
// about the cluster. It is not treated as a rejected request, because no credentials were tried.
func (s *Server) writeLoginPage(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="shardway"`)
	w.Header().Set("Shardway-Error", string(problem.Unauthorized))
	w.Header().Set("Vary", "Accept")
	s.page.write(w, http.StatusUnauthorized, s.page.loginPage)
}
