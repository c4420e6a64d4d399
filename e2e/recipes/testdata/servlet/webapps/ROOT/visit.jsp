<%-- A usual page with a session. It contains nothing for Shardway. --%>
<%@ page contentType="application/json; charset=UTF-8" session="true" %>
<%
    Integer before = (Integer) session.getAttribute("count");
    int count = before == null ? 1 : before + 1;
    session.setAttribute("count", count);
    String cookie = request.getHeader("Cookie");
%>
{"count": <%= count %>, "instance": "<%= System.getenv("INSTANCE") %>", "cookie": "<%= cookie == null ? "" : cookie %>"}
