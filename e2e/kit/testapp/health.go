//go:build linux

package main

import (
	"net/http"
	"net/url"
	"strconv"
)

// healthy is the text in the response of an app to a health check, unless POST /set-health changes it.
const healthy = "healthy"

// health is the response of the app to a health check.
type health struct {
	status int
	text   string
}

// healthBody is the body of the response to a health check. It repeats the request, so that a node that expects
// this body also checks which request it sent.
type healthBody struct {
	Method string `json:"method"`
	Host   string `json:"host"`
	Accept string `json:"accept"`
	Text   string `json:"text"`
}

// serveHealth responds to a health check.
func (a *app) serveHealth(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	response := a.health
	a.mu.Unlock()
	if a.instanceID != "" {
		w.Header().Set("Shardway-App-Instance", a.instanceID)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(response.status)
	writeJSON(w, healthBody{Method: r.Method, Host: r.Host, Accept: r.Header.Get("Accept"), Text: response.text})
}

// serveSetHealth changes the response to a health check.
func (a *app) serveSetHealth(w http.ResponseWriter, query url.Values) {
	status, err := strconv.Atoi(query.Get("status"))
	if err != nil || status < 200 || status > 599 {
		http.Error(w, "set-health: status must be a status code from 200 to 599", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.health = health{status: status, text: query.Get("text")}
	a.mu.Unlock()
	writeJSON(w, a.name)
}
