package proxy

import (
	"net/http"

	"shardway/internal/headerrules"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// The header rules are applied by the node whose app serves the request: to the request as received, and to the
// response before the node itself uses it. A forwarded request is therefore changed only once, and each attempt
// starts from the original request. The rules do not affect the key, which the ingress has already found. A field
// that a rule removes is also removed from the request's trailers; otherwise a client could give the app a field
// that only the rules may set.

// applyRules applies rules to the header of a request for the app. It appends the new lines to dst.
func (rw requestWriter) applyRules(dst []byte, edit *h1.Edit, rules *headerrules.Edit) []byte {
	if rules.RemovesAny() {
		edit.Replace = removeFields(&rw.req.Header, edit.Replace, rules)
		rw.req.Body.RemoveTrailers(rules.Removed()) // some servers add trailers to the headers
	}
	return append(dst, rules.Lines()...)
}

// removeFields adds the removals of rules to replaced, in line order, and returns the result.
func removeFields(header *h1.Header, replaced []h1.FieldValue, rules *headerrules.Edit) []h1.FieldValue {
	var result []h1.FieldValue
	for i := range header.NumFields() {
		isReplaced := len(replaced) > 0 && replaced[0].Line == i
		name, _ := header.Field(i)
		switch {
		case rules.Removes(name):
			result = append(result, h1.FieldValue{Line: i, Remove: true})
		case isReplaced:
			result = append(result, replaced[0])
		}
		if isReplaced {
			replaced = replaced[1:]
		}
	}
	return result
}

// applyResponseRules changes the header of a final response of the app of this node. A 101 response stays
// unchanged, because it begins another protocol.
func (state *requestState) applyResponseRules(kind route.Kind, res *h1.Response) {
	found := state.exchange.route
	if found == nil || found.responseHeaders == nil || kind != route.Local || res.Status() == http.StatusSwitchingProtocols {
		return
	}
	rules := found.responseHeaders
	if rules.RemovesAny() {
		res.EditFields(rules.Removes, rules.Lines())
	} else {
		res.EditFields(nil, rules.Lines())
	}
}
