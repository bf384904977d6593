package api

import "testing"

func TestPatternLength(t *testing.T) {
	for text, want := range map[string]int{
		"": 1, "abc": 3, "a{1000}": 1000, "(?:ab){10}": 20, "a{2,}": 2, "a{0,30}": 30, "[a-z]{5}": 5,
		"(?:(?:a{9}){9}){9}": 729, "a|bc": 4, "(": 0, "a{1001}": 0,
	} {
		if got := PatternLength(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
