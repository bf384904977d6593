package api

import "testing"

func TestHostAllowed(t *testing.T) {
	allowed := []string{"prices.example.com", "shop/10.0.0.7:8080", "[fd00::1]:80", "Upper.example.com:443"}
	for address, want := range map[string]bool{
		"http://prices.example.com/x":      true,
		"https://prices.example.com:443/x": true,
		"https://PRICES.example.com./x":    true,
		"http://prices.example.com:8080/":  false,
		"http://prices.example.com.evil/":  false,
		"http://evil/prices.example.com":   false,
		"http://a@prices.example.com/":     false,
		"http://10.0.0.7:8080/":            true,
		"http://10.0.0.7/":                 false,
		"http://[fd00::1]/":                true,
		"https://upper.example.com/":       true,
		"gopher://prices.example.com/":     false,
	} {
		if err := HostAllowed(allowed, "shop", address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if HostAllowed(allowed, "bank", "http://10.0.0.7:8080/") == nil {
		t.Error("another namespace's host is allowed")
	}
	for entry, want := range map[string]bool{
		"a": true, "a:80": true, "ns/a": true, "[::1]:80": true,
		"": false, "/a": false, "http://a": false, "a/b/c": false, "*": false, "u@a": false, "a b": false, "ns/": false,
	} {
		if err := CheckHost(entry); (err == nil) != want {
			t.Errorf("%q: %v", entry, err)
		}
	}
}
