{{- /* Values of another chart may lack what templates read, which would be empty flags, and so may sections that are set to null. */}}
{{- define "mash2.keys" -}}
{{- if ne (toString .Values.keys) "afcc9c6b" }}{{ fail "these values are of another version of the chart and may lack keys of this one: run helm upgrade with --reset-then-reuse-values (helm 3.14 or later) instead of --reuse-values" }}{{ end }}
{{- range $section := list "image" "prometheus" "records" "records.knowledge" "provider" "provider.gke" "provider.clusterapi" "operator" "policy" "sizing" "agents" "agents.node" "agents.node.application" "agents.node.resize" "strategies" "admission" "rbac" "serviceAccount" "uninstall" "metrics" "metrics.service" "metrics.serviceMonitor" "metrics.prometheusRule" "metrics.prometheusRule.recording" "metrics.dashboard" "page" "externalScaler" "models" "networkPolicy" "podDisruptionBudget" }}
{{- $values := $.Values }}
{{- range splitList "." $section }}{{ $values = index $values . }}{{ end }}
{{- if not (kindIs "map" $values) }}{{ fail (printf "%s is null: leave it out, and it has its defaults" $section) }}{{ end }}
{{- end }}
{{- end }}

{{- define "mash2.fullname" -}}
{{- if contains "mash2" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-mash2" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "mash2.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "mash2.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ required "serviceAccount.name is required when serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "mash2.selector" -}}
app.kubernetes.io/name: mash2
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mash2.labels" -}}
{{ include "mash2.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Pods on the nodes have labels of their own: the operator's services and policies are not theirs. */}}
{{- define "mash2.nodeSelector" -}}
app.kubernetes.io/name: mash2-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mash2.nodeLabels" -}}
{{ include "mash2.nodeSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "mash2.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{/* Not empty where new pods are given the sizes that are planned for them. */}}
{{- define "mash2.sizesAtAdmission" -}}
{{- if and .Values.sizing.enabled .Values.sizing.admission (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") }}true{{ end }}
{{- end }}

{{- define "mash2.placesAtAdmission" -}}
{{- if and .Values.strategies.placement (ne .Values.provider.name "none") (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") }}true{{ end }}
{{- end }}

{{- /* The label of nodes that names their pool. */}}
{{- define "mash2.poolLabel" -}}
{{- if .Values.provider.poolLabel }}{{ .Values.provider.poolLabel }}{{ else if eq .Values.provider.name "kind" }}mash2.io/pool{{ else if eq .Values.provider.name "clusterapi" }}node.cluster.x-k8s.io/pool{{ else }}cloud.google.com/gke-nodepool{{ end }}
{{- end }}

{{- /* The Secret with headers of requests to Prometheus; empty when there is none. */}}
{{- define "mash2.headersSecret" -}}
{{- if .Values.prometheus.headersSecret }}{{ .Values.prometheus.headersSecret }}{{ else if .Values.prometheus.headers }}{{ include "mash2.fullname" . }}-prometheus-headers{{ end }}
{{- end }}
