{{/* Labels of every object. */}}
{{- define "rankbeat.labels" -}}
app.kubernetes.io/part-of: rankbeat
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Full name of one of our images: (list . "operator"). */}}
{{- define "rankbeat.image" -}}
{{- $root := index . 0 -}}
{{- $images := $root.Values.images -}}
{{- with $images.registry }}{{ . }}/{{ end }}{{ $images.prefix }}/{{ index . 1 }}:{{ $images.tag | default $root.Chart.AppVersion }}
{{- end }}

{{/* What the webhook adds to a pod whose monitor asks for a sidecar, as JSON. */}}
{{- define "rankbeat.sidecar" -}}
{{- dict
  "image" (include "rankbeat.image" (list . "node"))
  "pullPolicy" .Values.images.pullPolicy
  "pullSecrets" .Values.sidecar.pullSecrets
  "resources" .Values.sidecar.resources
  | toJson }}
{{- end }}

{{/* Security of a container that needs nothing. */}}
{{- define "rankbeat.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rankbeat.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "rankbeat.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* What metrics.* says, where it cannot be: the field, and what to write. */}}
{{- define "rankbeat.metrics.check" -}}
{{- $metrics := .Values.metrics -}}
{{- $client := $metrics.tls.clientAuth -}}
{{- range list (list "metrics.tls.clientAuth" $client) (list "metrics.bearerToken" $metrics.bearerToken) -}}
{{- $name := index . 0 -}}
{{- $asked := index . 1 -}}
{{- if and $asked.enabled (not $metrics.tls.enabled) -}}
{{- fail (printf "%s.enabled is true and metrics.tls.enabled is false: over plain HTTP whoever sees the network could read it or pretend; add --set metrics.tls.enabled=true" $name) -}}
{{- end -}}
{{- if and $asked.existingSecret (not $asked.enabled) -}}
{{- fail (printf "%s.existingSecret names %q and %s.enabled is false, so that nobody would be asked for it: add --set %s.enabled=true" $name $asked.existingSecret $name $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The Secret with the certificate with which scrapers come. */}}
{{- define "rankbeat.metrics.clientSecret" -}}
{{ .Values.metrics.tls.clientAuth.existingSecret | default "rankbeat-metrics-client-tls" }}
{{- end }}

{{/* The Secret with the token with which scrapers come. */}}
{{- define "rankbeat.metrics.tokenSecret" -}}
{{ .Values.metrics.bearerToken.existingSecret | default "rankbeat-metrics-token" }}
{{- end }}

{{/* The name that the certificate bears: targets are addresses. */}}
{{- define "rankbeat.metrics.serverName" -}}
rankbeat-metrics.{{ .Release.Namespace }}.svc
{{- end }}
