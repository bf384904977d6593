package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

func TestEndpoints(t *testing.T) {
	s := &discoveryv1.EndpointSlice{
		Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
			{Addresses: []string{"10.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Terminating: ptr.To(true)}},
			{Addresses: []string{"10.0.0.3"}},
		},
	}
	if diff := cmp.Diff([]string{"10.0.0.1:8080", "10.0.0.3:8080"}, endpoints(s)); diff != "" {
		t.Error(diff)
	}
}

// Requests go to the endpoints in turn, and to those of the moment.
func TestProxy(t *testing.T) {
	var servers []string
	for i := range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, i, r.URL.Path, r.Header.Get("X-Cpu-Seconds"))
		}))
		defer s.Close()
		servers = append(servers, strings.TrimPrefix(s.URL, "http://"))
	}
	p := &proxy{slices: map[string][]string{}}
	p.targets.Store(&[]string{})
	front := httptest.NewServer(p.handler())
	defer front.Close()
	count := func(requests int) map[string]int {
		answers := map[string]int{}
		for range requests {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/users", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Cpu-Seconds", "0.1")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusOK {
				body = []byte(resp.Status)
			}
			answers[string(body)]++
		}
		return answers
	}
	if diff := cmp.Diff(map[string]int{"502 Bad Gateway": 2}, count(2)); diff != "" {
		t.Error("without endpoints:", diff)
	}
	p.set("ns/a", servers[:1])
	p.set("ns/b", servers[1:])
	if diff := cmp.Diff(map[string]int{"0/users0.1": 4, "1/users0.1": 4, "2/users0.1": 4}, count(12)); diff != "" {
		t.Error("three endpoints of two slices:", diff)
	}
	p.set("ns/b", nil)
	if diff := cmp.Diff(map[string]int{"0/users0.1": 3}, count(3)); diff != "" {
		t.Error("one left:", diff)
	}
}
